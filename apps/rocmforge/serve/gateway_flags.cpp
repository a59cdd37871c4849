#include "serve/gateway_flags.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

const std::string group = "Several models";

}  // namespace

void GatewayFlags::add_to(Command& command) {
  const auto add = [&](Option option) {
    option.group = group;
    command.options.push_back(std::move(option));
  };
  add({"--models-dir", &folder, "Serve every model file below this folder", "FOLDER"});
  add({"--models-preset", &preset, "Serve the models of this file: a section [NAME] for each, with options as KEY = VALUE",
       "FILE"});
  add({.names = "--models-max",
       .target = &most_loaded,
       .meaning = "Models loaded at once; the one not used for longest makes way",
       .range = {.least = 0, .most = 1000, .note = "0: as many as fit"}});
  add({.names = "--models-memory",
       .target = &memory_mib,
       .meaning = "MiB that all loaded models need together",
       .range = {.least = 0, .most = 1 << 30, .note = "0: what is free"}});
  add({"--keep-alive", &keep_alive,
       "How long a model stays loaded while nobody asks for it: seconds, or 5m or 1h30m; -1 is for ever", "TIME"});
  add({.names = "--sleep-idle",
       .target = &sleep_seconds,
       .meaning = "Seconds without a request after which a model frees its memory until the next one",
       .range = {.least = 0, .most = 1e9, .note = "0: never"}});
}

bool GatewayFlags::are_needed(const std::vector<std::string>& models) const {
  std::error_code ignored;
  return models.size() > 1 || (models.size() == 1 && std::filesystem::is_directory(models.front(), ignored)) ||
         !folder.empty() || !preset.empty() || sleep_seconds > 0.0 || keep_alive_time().has_value();
}

KeepAlive GatewayFlags::keep_alive_time() const {
  try {
    return read_keep_alive(keep_alive);
  } catch (const Error& error) {
    throw UsageError(fmt::format("--keep-alive: {}", error.what()));
  }
}

}  // namespace rocmforge::app
