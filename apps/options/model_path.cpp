#include "model_path.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <utility>

#include "hub/name.h"
#include "model_files.h"
#include "usage_error.h"

namespace rocmforge::app {

namespace fs = std::filesystem;

std::vector<fs::path> models_folders() {
  std::vector<fs::path> candidates;
  if (const char* folder = std::getenv("ROCMFORGE_MODELS_DIR"); folder != nullptr && *folder != '\0') {
    candidates.emplace_back(folder);
  }
  std::error_code ignored;
  if (const fs::path program = fs::read_symlink("/proc/self/exe", ignored); !program.empty()) {
    candidates.push_back(program.parent_path().parent_path() / "share" / "rocmforge");
  }
  static const char here = 0;  // its address finds the library's file, if this code is part of one
  if (Dl_info object; dladdr(&here, &object) != 0) {
    const fs::path file = fs::weakly_canonical(object.dli_fname, ignored);
    candidates.push_back(file.parent_path().parent_path() / "share" / "rocmforge");
  }
  candidates.emplace_back(ROCMFORGE_MODELS_DIR);
  std::vector<fs::path> folders;
  for (const fs::path& candidate : candidates) {
    fs::path folder = fs::canonical(candidate, ignored);  // in a build folder, share/rocmforge is a link
    if (fs::is_directory(folder, ignored) && std::find(folders.begin(), folders.end(), folder) == folders.end()) {
      folders.push_back(std::move(folder));
    }
  }
  return folders;
}

namespace {

/// The one file of that name that `rocmforge models` lists; "" when there is none.
std::string find_listed(const std::string& name) {
  std::map<fs::path, fs::path> found;  // by resolved path: several links to one file count once
  for (const fs::path& folder : listed_folders()) {
    for (const fs::path& path : find_model_files(folder).files) {
      if (path.filename() == name || path.filename() == name + ".gguf") {
        found.emplace(fs::weakly_canonical(path), path);
      }
    }
  }
  if (found.size() > 1) {
    throw UsageError(fmt::format("there are {} models '{}', among them {} and {}: name one by its path", found.size(), name,
                                 found.begin()->second.string(), std::next(found.begin())->second.string()));
  }
  return found.empty() ? "" : found.begin()->second.string();
}

}  // namespace

std::vector<fs::path> listed_folders() {
  std::vector<fs::path> folders = models_folders();
  folders.emplace_back(".");
  for (const fs::path& shared : shared_model_folders()) {
    folders.push_back(shared);
  }
  return folders;
}

std::string find_model(const std::string& argument) {
  const std::string name = argument.empty() ? "forge-demo" : argument;
  std::error_code ignored;
  if (!argument.empty() && fs::is_directory(argument, ignored)) {
    throw UsageError(fmt::format("'{}' is a folder; rocmforge models '{}' lists its models", argument, argument));
  }
  if (!argument.empty() && fs::exists(argument, ignored)) {
    return argument;
  }
  if (name.find('/') != std::string::npos) {
    throw UsageError(
        fmt::format("there is no file '{}'{}", name,
                    hub::looks_like_hub_name(name) ? fmt::format("; -hf {} is the model of huggingface.co", name) : ""));
  }
  std::string looked;
  for (const fs::path& folder : models_folders()) {
    for (const char* ending : {"", ".gguf"}) {
      if (const fs::path path = folder / (name + ending); fs::is_regular_file(path, ignored)) {
        return path.string();
      }
    }
    looked += looked.empty() ? " in " : ", ";
    looked += folder.string();
  }
  if (const std::string path = find_listed(name); !path.empty()) {
    return path;
  }
  if (argument.empty()) {
    throw UsageError(fmt::format("no MODEL was given and there is no demo model forge-demo.gguf{}", looked));
  }
  const std::string advice = argument.find(' ') != std::string::npos ? "; a prompt goes behind -p or after the model's name"
                                                                     : "; rocmforge models lists those there are";
  throw UsageError(
      fmt::format("there is no model file '{}' here{}{}{}", argument, looked.empty() ? "" : " or", looked, advice));
}

}  // namespace rocmforge::app
