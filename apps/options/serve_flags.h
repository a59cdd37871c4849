#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command.h"
#include "flags.h"
#include "prompts.h"
#include "server/server.h"

namespace rocmforge::app {

/// The options of `serve` that concern the model and the number of concurrent answers, not connections.
struct ServiceFlags {
  std::string alias;
  std::string pooling = "model";
  std::int32_t parallel = 32;
  std::int32_t max_waiting = 2048;
  std::int64_t kv_tokens = 0;
  std::int64_t cache_ram_mib = -1;
  std::string cache_disk;
  std::int64_t cache_disk_mib = 16384;
  std::string slot_folder;
  double prompt_seconds = 0.5;
  double request_seconds = 600.0;
  bool no_prefix_cache = false;
  bool strict_fields = false;

  void add_to(Command& command);
  /// The engine's options with these flags applied.
  [[nodiscard]] EngineOptions engine_options(const EngineFlags& engine) const;
  /// The server's options that concern the model. Throws UsageError.
  [[nodiscard]] ServerOptions server_options(const std::string& path, const SamplingChoices& sampling,
                                             const TemplateFlags& chat_template) const;
};

/// How many contexts a server's KV cache has room for where memory decides their length.
std::int32_t usual_contexts(const EngineOptions& options);

/// The default size of a server's KV cache in positions: up to 4 full contexts, or 1024 for each answer if that is more.
std::int64_t usual_kv_tokens(const EngineOptions& options, const std::string& path);

/// The options of `serve` for its connections.
struct ListenFlags {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  std::vector<std::string> keys;
  std::string key_file;
  std::vector<std::string> origins;
  std::vector<std::string> hosts;
  double drain_seconds = 30.0;
  std::string log_format = "text";
  bool log_requests = false;
  std::string log_file;
  bool no_page = false;
  bool no_slots = false;
  std::int32_t max_connections = 1024;
  std::int32_t max_body_mib = 0;  ///< 0: enough for a text, or for images
  std::int32_t client_share = 50;
  std::int32_t max_priority = 0;
  bool share_prefixes = false;
  bool isolate_keys = false;
  std::int64_t request_memory_mib = 0;
  double request_work_millions = 200.0;
  bool behind_router = false;

  void add_to(Command& command);
  /// Adds these flags to the options of a server whose model has an encoder of images or recordings, or none. Throws
  /// UsageError, and Error for a file of keys that can't be read.
  void apply(ServerOptions& options, bool has_encoder) const;
};

}  // namespace rocmforge::app
