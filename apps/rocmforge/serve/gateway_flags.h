#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command.h"
#include "gateway/asked_model.h"

namespace rocmforge::app {

/// The options of `serve` for several models behind one port.
struct GatewayFlags {
  std::string folder;
  std::string preset;
  std::int32_t most_loaded = 4;
  std::int64_t memory_mib = 0;
  std::string keep_alive = "-1";
  double sleep_seconds = 0.0;

  void add_to(Command& command);
  /// Whether these flags ask for processes of models, also for a single one. `models`: as they were named.
  [[nodiscard]] bool are_needed(const std::vector<std::string>& models) const;
  /// Throws UsageError.
  [[nodiscard]] KeepAlive keep_alive_time() const;
};

}  // namespace rocmforge::app
