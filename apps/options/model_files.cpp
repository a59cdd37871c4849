#include "model_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "hub/choice.h"
#include "hub/settings.h"
#include "usage_error.h"

namespace rocmforge::app {

namespace fs = std::filesystem;

namespace {

std::optional<fs::path> variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? std::optional<fs::path>(value) : std::nullopt;
}

/// The identity of a folder in the file system, whatever the path to it.
using FolderId = std::pair<dev_t, ino_t>;

std::optional<FolderId> folder_id(const fs::path& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 ? std::optional(FolderId{status.st_dev, status.st_ino}) : std::nullopt;
}

/// The files, of split models only the lowest part.
std::vector<fs::path> first_parts(const std::vector<fs::path>& files) {
  std::map<fs::path, std::pair<int, fs::path>> best;
  for (const fs::path& file : files) {
    const hub::SplitName name = hub::split_name(file.filename().string());
    const fs::path key = file.parent_path() / (name.count > 1 ? fmt::format("{}-of-{}", name.base, name.count) : name.base);
    const auto [found, is_new] = best.try_emplace(key, name.part, file);
    if (!is_new && name.part < found->second.first) {
      found->second = {name.part, file};
    }
  }
  std::vector<fs::path> first;
  for (const auto& [key, part] : best) {
    first.push_back(part.second);
  }
  std::ranges::sort(first);
  return first;
}

}  // namespace

std::vector<fs::path> shared_model_folders() {
  const std::optional<fs::path> home = variable("HOME");
  const auto below_home = [&](const char* path) { return home ? *home / path : fs::path(); };
  const fs::path cache = variable("XDG_CACHE_HOME").value_or(below_home(".cache"));
  std::vector<fs::path> folders;
  const auto add = [&](const fs::path& folder) {
    std::error_code ignored;
    if (folder.is_absolute() && fs::is_directory(folder, ignored)) {
      folders.push_back(folder);
    }
  };
  add(hub::cache_folder());
  add(below_home(".lmstudio/models"));
  add(below_home(".cache/lm-studio/models"));
  add(variable("LLAMA_CACHE").value_or(cache / "llama.cpp"));
  return folders;
}

ModelFiles find_model_files(const fs::path& folder, const WalkLimits& limits) {
  ModelFiles found;
  std::vector<fs::path> files;
  std::vector<std::pair<fs::path, int>> waiting = {{folder, 0}};
  std::set<FolderId> seen;
  std::size_t entries = 0;
  while (!waiting.empty() && found.complete) {
    const auto [path, depth] = std::move(waiting.back());
    waiting.pop_back();
    const std::optional<FolderId> id = folder_id(path);
    if (id && !seen.insert(*id).second) {
      continue;
    }
    std::error_code problem;
    fs::directory_iterator entry(path, problem);
    if (problem && depth == 0) {
      throw UsageError(fmt::format("{}: {}", folder.string(), problem.message()));
    }
    for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
      if (++entries > limits.entries) {
        found.complete = false;
        break;
      }
      const std::string name = entry->path().filename().string();
      std::error_code unreadable;
      if (entry->is_directory(unreadable)) {
        if (!name.starts_with('.') && depth < limits.depth) {
          waiting.emplace_back(entry->path(), depth + 1);
        }
      } else if (name.ends_with(".gguf") && entry->is_regular_file(unreadable)) {
        files.push_back(entry->path());
      }
    }
  }
  found.files = first_parts(files);
  return found;
}

}  // namespace rocmforge::app
