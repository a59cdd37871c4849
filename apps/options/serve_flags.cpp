#include "serve_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/available_memory.h"
#include "base/json.h"
#include "base/log.h"
#include "comma_list.h"
#include "engine/plan_model.h"
#include "models/config/model_config.h"
#include "server/access.h"
#include "usage_error.h"
#include "weights/gguf_file.h"

namespace rocmforge::app {
namespace {

const std::string server_group = "Server";
constexpr std::int32_t text_body_mib = 8;
constexpr std::int32_t image_body_mib = 32;  // a few photographs, which base64 makes a third longer
constexpr const char* api_key_variable = "ROCMFORGE_API_KEY";

std::optional<Pooling> pooling_of(const std::string& text) {
  for (const Pooling kind : {Pooling::mean, Pooling::last, Pooling::cls}) {
    if (text == name(kind)) {
      return kind;
    }
  }
  return std::nullopt;  // model, none
}

/// The default memory for requests and answers: an eighth of the free memory, within limits, so that the model has the most.
std::int64_t usual_request_memory() {
  constexpr std::int64_t usual = std::int64_t{512} << 20;
  constexpr std::int64_t least = std::int64_t{32} << 20;
  const std::int64_t available = available_memory_bytes().value_or(8 * usual);
  return std::clamp(available / 8, least, usual);
}

Option of_server(Option option) {
  option.group = server_group;
  return option;
}

}  // namespace

void ServiceFlags::add_to(Command& command) {
  const auto add = [&](Option option) { command.options.push_back(of_server(std::move(option))); };
  const Range seconds = {.least = 0, .most = 1e6};
  add({"-a,--alias", &alias, "The model's name for clients; without it the file's", "NAME"});
  add({.names = "--pooling",
       .target = &pooling,
       .meaning = "Of embeddings; model: as its file says, else mean",
       .choices = {"model", "mean", "last", "cls", "none"}});
  add({.names = "--parallel",
       .target = &parallel,
       .meaning = "Answers computed at once",
       .range = {.least = 1, .most = 4096},
       .also = "-np"});
  add({.names = "--max-waiting",
       .target = &max_waiting,
       .meaning = "Answers that may wait beside them",
       .range = {.least = 0, .most = 1'000'000}});
  add({.names = "--kv-tokens",
       .target = &kv_tokens,
       .meaning = "Positions the KV cache holds in all",
       .range = {.least = 0,
                 .most = static_cast<double>(std::int64_t{1} << 40),
                 .note = "0: four full contexts, or 1,024 for each answer"}});
  add({.names = "--prompt-seconds",
       .target = &prompt_seconds,
       .meaning = "Seconds that prompts may hold up answers in a step; 0: any",
       .range = seconds});
  add({.names = "--request-timeout",
       .target = &request_seconds,
       .meaning = "Seconds a request may take; 0: any",
       .range = seconds});
  add({.names = "--cache-ram",
       .target = &cache_ram_mib,
       .meaning = "MiB of host memory for prompts that leave the KV cache",
       .range = {.least = -1, .most = 1 << 30, .note = "0: none; -1: a quarter of what the models leave free"}});
  add({"--cache-disk", &cache_disk, "Keep prompts in files of this folder too, where later servers find them", "FOLDER"});
  add({.names = "--cache-disk-size",
       .target = &cache_disk_mib,
       .meaning = "MiB of all files there",
       .range = {.least = 0, .most = 1 << 30}});
  add({"--slot-save-path", &slot_folder, "Clients may save conversations in files of this folder (POST /slots)", "FOLDER"});
  add({"--no-prefix-cache", &no_prefix_cache, "Compute every prompt from its start"});
  add({"--strict-fields", &strict_fields, "Refuse requests with fields that are not known"});
}

EngineOptions ServiceFlags::engine_options(const EngineFlags& engine) const {
  EngineOptions options = engine.options();
  options.max_sequences = parallel;
  options.max_batch_tokens = std::max(options.max_batch_tokens, parallel);
  options.model.max_batch_tokens = options.max_batch_tokens;
  options.prefix_cache = !no_prefix_cache;
  options.kv_tokens = kv_tokens;
  for (const auto& [flag, folder] : {std::pair("--cache-disk", &cache_disk), std::pair("--slot-save-path", &slot_folder)}) {
    if (!folder->empty() && (cache_ram_mib == 0 || no_prefix_cache)) {
      throw UsageError(fmt::format("{} can't be used with {}: prompts come back through host memory", flag,
                                   no_prefix_cache ? "--no-prefix-cache" : "--cache-ram 0"));
    }
  }
  options.slots = !slot_folder.empty();
  options.cache_disk = cache_disk;
  options.cache_disk_bytes = cache_disk_mib << 20;
  options.cache_ram_bytes = cache_ram_mib < 0 ? -1 : cache_ram_mib << 20;
  options.max_prefill_seconds = prompt_seconds;
  return options;
}

ServerOptions ServiceFlags::server_options(const std::string& path, const SamplingChoices& sampling,
                                           const TemplateFlags& chat_template) const {
  ServerOptions options;
  options.model_id = alias.empty() ? std::filesystem::path(path).stem().string() : alias;
  options.model_path = path;
  options.chat_template = chat_template.source();
  options.template_arguments = chat_template.variables();
  options.sampling = sampling;
  options.slot_folder = slot_folder;
  options.parallel = parallel;
  options.max_waiting = max_waiting;
  if (request_seconds > 0.0) {
    options.request_time = std::chrono::milliseconds(static_cast<std::int64_t>(request_seconds * 1000.0));
  }
  options.embeddings = pooling != "none";
  options.pooling = pooling_of(pooling);
  options.strict_fields = strict_fields;
  options.version = ROCMFORGE_VERSION;
  return options;
}

std::int32_t usual_contexts(const EngineOptions& options) {
  constexpr std::int32_t full_contexts = 4;
  return std::min(options.max_sequences, full_contexts);
}

std::int64_t usual_kv_tokens(const EngineOptions& options, const std::string& path) {
  const std::int32_t context = context_length(options, ModelConfig::from_gguf(GgufFile(path)));
  return tokens_of_contexts(context, usual_contexts(options), options.max_sequences);
}

void ListenFlags::add_to(Command& command) {
  const auto add = [&](Option option) { command.options.push_back(of_server(std::move(option))); };
  const Range seconds = {.least = 0, .most = 1e6};
  add({"--host", &host, "Address to listen at; 0.0.0.0 for all; a path: a unix socket", "ADDRESS"});
  add({.names = "--port",
       .target = &port,
       .meaning = "Port",
       .range = {.least = 0, .most = 65535, .note = "0: a free one, which is printed"}});
  add({.names = "--drain-seconds",
       .target = &drain_seconds,
       .meaning = "Seconds that running requests have at the end",
       .range = seconds});
  add({.names = "--max-connections",
       .target = &max_connections,
       .meaning = "Connections at once",
       .range = {.least = 1, .most = 65'536}});
  add({.names = "--max-body",
       .target = &max_body_mib,
       .meaning = "MiB a request may have",
       .range = {.least = 0,
                 .most = 1024,
                 .note = fmt::format("0: {}, or {} where the model has an encoder of images or recordings", text_body_mib,
                                     image_body_mib)}});
  add({.names = "--request-memory",
       .target = &request_memory_mib,
       .meaning = "MiB that all requests and answers hold together",
       .range = {.least = 0, .most = 1 << 20, .note = "0: 512, or an eighth of what is free"}});
  add({.names = "--request-work",
       .target = &request_work_millions,
       .meaning = "Million units of work to read a request, 20 ns each",
       .range = {.least = 0.001, .most = 1e9}});
  add({.names = "--client-share",
       .target = &client_share,
       .meaning = "Percent of places, connections and memory for a client beside others",
       .range = {.least = 1, .most = 100}});
  add({.names = "--max-priority",
       .target = &max_priority,
       .meaning = "How far below 0 a request's priority may be",
       .range = {.least = 0, .most = 1000}});
  add({"--api-key-file", &key_file,
       "Serve only requests with a key of this file: one a line, each with max-priority=N behind it or without", "FILE"});
  add({.names = "--api-key",
       .target = &keys,
       .meaning = "The same for this key, or one of KEY,KEY (may be repeated); all users of the machine see a command's "
                  "arguments, but not its files and environment",
       .value = "KEY",
       .environment = api_key_variable});
  add({.names = "--isolate-keys",
       .target = &isolate_keys,
       .meaning = "No key's prompts begin with what those of others have computed, also while there is one key alone",
       .excludes = {"--share-prefixes"}});
  add({"--share-prefixes", &share_prefixes, "With several keys: prompts begin with what those of other keys have computed"});
  add({"--allowed-hosts", &hosts,
       "Without a key: a name of this server beside its addresses, local names and the machine's name; *: any (may be "
       "repeated)",
       "NAME"});
  add({"--cors-origin", &origins, "Let pages of this origin use the server; *: of any (may be repeated)", "ORIGIN"});
  add({.names = "--log-format", .target = &log_format, .meaning = "Of the log's lines", .choices = {"text", "json"}});
  add({"--log-file", &log_file, "Append the log to a file; without it standard error", "FILE"});
  add({"--log-requests", &log_requests, "Log what is asked and answered as well"});
  add({"--no-page", &no_page, "No web page at /"});
  add({"--no-slots", &no_slots, "No /slots"});
  add({"--behind-router", &behind_router,
       "As serve starts a process for each of several models: the router that opens the unix socket says by headers whose a "
       "request is, and by a line on standard input when to load"});
}

void ListenFlags::apply(ServerOptions& options, bool has_encoder) const {
  if (behind_router && !is_socket_path(host)) {
    throw UsageError("--behind-router trusts who asks, and takes --host with the path of a unix socket");
  }
  options.behind_router = behind_router;
  options.host = host;
  options.port = port;
  options.http.connections = max_connections;
  options.http.body_bytes = static_cast<std::size_t>(max_body_mib > 0 ? max_body_mib
                                                     : has_encoder    ? image_body_mib
                                                                      : text_body_mib)
                            << 20;
  options.keys.clear();
  for (const std::string& list : keys) {
    for (std::string& key : split_at_commas(list)) {
      options.keys.emplace_back(std::move(key));
    }
  }
  if (!key_file.empty()) {
    const std::vector<ApiKey> more = read_key_file(key_file);
    options.keys.insert(options.keys.end(), more.begin(), more.end());
  }
  for (const ApiKey& key : options.keys) {
    if (key.text.empty()) {
      throw UsageError("--api-key: the key is empty");
    }
  }
  const char* variable = std::getenv(api_key_variable);
  if (options.keys.empty() && variable != nullptr && *variable == '\0') {
    throw UsageError(fmt::format("{} is empty: unset it to serve without a key", api_key_variable));
  }
  options.cors_origins = origins;
  options.share_prefixes = share_prefixes;
  options.isolate_keys = isolate_keys;
  options.hosts = hosts;
  options.hosts.push_back(is_socket_path(host) ? "*" : host);  // no page leads to a socket in the file system
  options.hosts.push_back(machine_name());
  const bool is_local = host == "localhost" || host == "::1" || host.starts_with("127.");
  if (!is_local && !is_socket_path(host) && options.keys.empty()) {
    log_warning("anybody who reaches {} may use this server; --api-key-file asks for a key", host);
  }
  options.client_share = client_share;
  options.max_priority = max_priority;
  options.request_memory = request_memory_mib > 0 ? request_memory_mib << 20 : usual_request_memory();
  options.request_work = static_cast<std::uint64_t>(request_work_millions * 1e6);
  options.page = !no_page;
  options.slots = !no_slots;
  options.log = {.json = log_format == "json", .requests = log_requests, .file = log_file};
}

}  // namespace rocmforge::app
