#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "command.h"
#include "commands/model_summary.h"
#include "engine/plan_model.h"
#include "flags.h"
#include "model_files.h"
#include "model_path.h"
#include "terminal/text.h"

namespace rocmforge::app {
namespace {

namespace fs = std::filesystem;

struct ModelsFlags {
  std::string folder;
  bool json = false;
  std::string device = "auto";
  std::string kernel_dir;
};

/// Finds out whether models fit into the memory of one device, which is opened once.
class Fitting {
 public:
  Fitting(const std::string& device, const std::string& kernel_dir) {
    options_.device = device;
    options_.kernel_dir = kernel_dir;
  }

  /// The memory that the model needs with the default context; "refused" instead of the numbers if this build can't run it.
  nlohmann::ordered_json describe(const std::string& path) {
    try {
      PlannedModel planned = plan_model(path, options_, std::move(device_));
      device_ = std::move(planned.device);
      device_name_ = describe_device(device_->info(), planned.threads);
      const MemoryNeeds& needs = planned.memory;
      nlohmann::ordered_json out = {{"memory_bytes", needs.total_bytes()}, {"fits", planned.lacking() == nullptr}};
      if (needs.available_bytes) {
        available_ = *needs.available_bytes;
        out["tokens_that_fit"] = needs.fitting_tokens();
      }
      return out;
    } catch (const Error& error) {
      return {{"refused", error.what()}};
    }
  }

  [[nodiscard]] std::string headline() const {
    return device_name_.empty()
               ? ""
               : fmt::format("memory: with a context of {} tokens at most; {} has {} available", default_context_limit,
                             device_name_, human_bytes(static_cast<std::uint64_t>(available_)));
  }

 private:
  EngineOptions options_;
  std::unique_ptr<Device> device_;
  std::string device_name_;
  std::int64_t available_ = 0;
};

nlohmann::ordered_json summary(const fs::path& path, Fitting& fitting) {
  nlohmann::ordered_json row = {{"path", path.string()}};
  try {
    const GgufFile file(path);
    const std::string architecture = file.string("general.architecture", "");
    row["name"] = file.string("general.name", "");
    row["architecture"] = architecture;
    row["parameters"] = parameter_count(file);
    row["formats"] = format_mix(file);
    row["bytes"] = file.file_bytes();
    row["files"] = file.num_shards();
    row["context_length"] = file.integer(architecture + ".context_length", 0);
  } catch (const Error& error) {
    row["error"] = error.what();
    return row;
  }
  row.update(fitting.describe(path.string()));
  return row;
}

/// "yes", "with -c 4096", "no", or "-" for a model that this build can't run.
std::string fits_text(const nlohmann::ordered_json& row) {
  if (row.contains("refused")) {
    return "-";
  }
  const std::int64_t tokens = row.value("tokens_that_fit", std::int64_t{0});
  return row["fits"].get<bool>() ? "yes" : tokens > 0 ? fmt::format("with -c {}", tokens) : "no";
}

/// The path, with ~ for the home folder.
std::string short_path(const std::string& path) {
  const char* home = std::getenv("HOME");
  const std::string folder = home == nullptr || *home == '\0' ? "" : std::string(home) + "/";
  return printable(!folder.empty() && path.starts_with(folder) ? "~/" + path.substr(folder.size()) : path);
}

/// The message without the path at its beginning.
std::string problem_text(std::string problem, const std::string& path) {
  problem.erase(0, problem.starts_with(path + ": ") ? path.size() + 2 : 0);
  return printable(problem);
}

void print_models(const nlohmann::ordered_json& rows, const Fitting& fitting) {
  Table table({"file", "name", "architecture", ">parameters", ">size", ">context", ">memory", "fits", "formats"});
  std::vector<std::string> refused;
  for (const auto& row : rows) {
    const std::string path = row["path"];
    if (row.contains("error")) {
      table.add({short_path(path), "", "", "", "", "", "", "", "broken: " + problem_text(row["error"], path)});
      continue;
    }
    if (row.contains("refused")) {
      refused.push_back(fmt::format("{}: {}", short_path(path), problem_text(row["refused"], path)));
    }
    const std::int64_t context = row["context_length"];
    table.add({short_path(path), printable(row["name"].get<std::string>()),
               printable(row["architecture"].get<std::string>()), human_count(row["parameters"]), human_bytes(row["bytes"]),
               context > 0 ? fmt::format("{}", context) : "?",
               row.contains("memory_bytes") ? human_bytes(row["memory_bytes"]) : "", fits_text(row), row["formats"]});
  }
  table.print(stdout);
  if (!fitting.headline().empty()) {
    fmt::print("\n{}\n", fitting.headline());
  }
  if (!refused.empty()) {
    fmt::print("\nnot run by this build:\n");
  }
  for (const std::string& line : refused) {
    fmt::print("  {}\n", line);
  }
}

int models(const ModelsFlags& flags) {
  const std::vector<fs::path> folders = flags.folder.empty() ? listed_folders() : std::vector<fs::path>{flags.folder};
  Fitting fitting(flags.device, flags.kernel_dir);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::set<fs::path> seen;
  for (const fs::path& folder : folders) {
    const ModelFiles found = find_model_files(folder);
    if (!found.complete) {
      log_warning("{}: so many files that not all were looked at", folder.string());
    }
    for (const fs::path& path : found.files) {
      if (seen.insert(fs::weakly_canonical(path)).second) {
        rows.push_back(summary(path, fitting));
      }
    }
  }
  if (flags.json) {
    print_json(rows);
    return 0;
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
  print_models(rows, fitting);
  return 0;
}

}  // namespace

Command models_command() {
  auto flags = std::make_shared<ModelsFlags>();
  return {.name = "models",
          .summary = "List the model files on this machine, and which fit into memory",
          .notes =
              "Without a folder those of the models folder, the current folder, the hub's cache, LM Studio and llama.cpp "
              "are listed, with all folders below. A model in several files counts once.",
          .examples = {"rocmforge models", "rocmforge models ~/models --json"},
          .options = {{"DIR", &flags->folder, "This folder alone"},
                      json_option(flags->json),
                      device_option(flags->device),
                      kernel_dir_option(flags->kernel_dir)},
          .action = [flags] { return models(*flags); }};
}

}  // namespace rocmforge::app
