#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command.h"
#include "flags.h"
#include "model_path.h"
#include "model_summary.h"
#include "text.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

namespace fs = std::filesystem;

struct ModelsFlags {
  std::string folder;
  bool json = false;
};

/// Model files of a folder by name; of a split set the first part stands for all.
std::vector<fs::path> model_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code problem;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, problem)) {
    const std::string name = entry.path().filename().string();
    const bool later_part = name.find("-of-") != std::string::npos && name.find("-00001-of-") == std::string::npos;
    if (name.ends_with(".gguf") && !later_part && !entry.is_directory(problem)) {
      files.push_back(entry.path());
    }
  }
  if (problem) {
    throw UsageError(fmt::format("{}: {}", folder.string(), problem.message()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

nlohmann::ordered_json summary(const fs::path& path) {
  nlohmann::ordered_json row = {{"path", path.string()}};
  try {
    const GgufFile file(path);
    const std::string architecture = file.string("general.architecture", "");
    row["name"] = file.string("general.name", "");
    row["architecture"] = architecture;
    row["parameters"] = parameter_count(file);
    row["formats"] = format_mix(file);
    row["bytes"] = file.file_bytes();
    row["context_length"] = file.integer(architecture + ".context_length", 0);
  } catch (const Error& error) {
    row["error"] = error.what();
  }
  return row;
}

int models(const ModelsFlags& flags) {
  std::vector<fs::path> folders = flags.folder.empty() ? models_folders() : std::vector<fs::path>{flags.folder};
  if (flags.folder.empty()) {
    folders.emplace_back(".");
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::vector<fs::path> seen;
  for (const fs::path& folder : folders) {
    for (const fs::path& path : model_files(folder)) {
      const fs::path real = fs::weakly_canonical(path);
      if (std::find(seen.begin(), seen.end(), real) == seen.end()) {
        seen.push_back(real);
        rows.push_back(summary(path));
      }
    }
  }
  if (flags.json) {
    print_json(rows);
    return 0;
  }
  Table table({"file", "name", "architecture", ">parameters", ">size", ">context", "formats"});
  for (const auto& row : rows) {
    const std::string path = row["path"];
    if (row.contains("error")) {
      std::string error = row["error"];
      error.erase(0, error.starts_with(path + ": ") ? path.size() + 2 : 0);
      table.add({path, "", "", "", "", "", "broken: " + printable(error)});
    } else {
      const std::int64_t context = row["context_length"];
      table.add({path, printable(row["name"].get<std::string>()), printable(row["architecture"].get<std::string>()),
                 human_count(row["parameters"]), human_bytes(row["bytes"]), context > 0 ? fmt::format("{}", context) : "?",
                 row["formats"]});
    }
  }
  if (rows.empty()) {
    std::string looked;
    for (const fs::path& folder : folders) {
      looked += looked.empty() ? "" : ", ";
      looked += folder.string();
    }
    fmt::print("no .gguf files in {}\n", looked);
    return 0;
  }
  table.print(stdout);
  return 0;
}

}  // namespace

Command models_command() {
  auto flags = std::make_shared<ModelsFlags>();
  return {.name = "models",
          .summary = "List the model files of a folder",
          .examples = {"rocmforge models", "rocmforge models ~/models --json"},
          .options = {{"DIR", &flags->folder, "Folder; without it the models folder and the current one"},
                      json_option(flags->json)},
          .action = [flags] { return models(*flags); }};
}

}  // namespace rocmforge::app
