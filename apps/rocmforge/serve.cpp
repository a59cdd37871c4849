#include <fmt/format.h>
#include <pthread.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <csignal>
#include <ctime>
#include <exception>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "command.h"
#include "engine/available_memory.h"
#include "flags.h"
#include "generate.h"
#include "model_path.h"
#include "models/model_config.h"
#include "pull_model.h"
#include "server/access.h"
#include "server/server.h"
#include "usage_error.h"
#include "weights/gguf_file.h"

namespace rocmforge::app {
namespace {

struct ServeFlags {
  ModelArgument model;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  std::string alias;
  std::string pooling = "mean";
  std::int32_t parallel = 32;
  std::int32_t max_waiting = 2048;
  std::int64_t kv_tokens = 0;
  double prompt_seconds = 0.5;
  std::vector<std::string> keys;
  std::string key_file;
  std::vector<std::string> origins;
  double drain_seconds = 30.0;
  double request_seconds = 600.0;
  std::string log_format = "text";
  bool log_requests = false;
  std::string log_file;
  bool no_prefix_cache = false;
  bool strict_fields = false;
  bool allow_pull = false;
  bool no_page = false;
  bool no_slots = false;
  std::int32_t max_connections = 1024;
  std::int32_t max_body_mib = 8;
  std::int32_t client_share = 50;
  std::int32_t max_priority = 0;
  std::int64_t request_memory_mib = 0;
  double request_work_millions = 200.0;
  SamplingFlags sampling;
  TemplateFlags chat_template;
  EngineFlags engine;
};

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000.0));
}

std::optional<Pooling> pooling(const std::string& text) {
  for (const Pooling kind : {Pooling::mean, Pooling::last, Pooling::cls}) {
    if (text == name(kind)) {
      return kind;
    }
  }
  return std::nullopt;  // none
}

/// Bytes for requests and answers: enough for many, and a part of what is free that leaves the most to the model.
std::int64_t usual_request_memory() {
  constexpr std::int64_t usual = std::int64_t{512} << 20;
  constexpr std::int64_t least = std::int64_t{32} << 20;
  const std::int64_t available = available_memory_bytes().value_or(8 * usual);
  return std::clamp(available / 8, least, usual);
}

ServerOptions server_options(const ServeFlags& flags, const std::string& path) {
  ServerOptions options;
  options.host = flags.host;
  options.port = flags.port;
  options.http.connections = flags.max_connections;
  options.http.body_bytes = static_cast<std::size_t>(flags.max_body_mib) << 20;
  options.model_id = flags.alias.empty() ? std::filesystem::path(path).stem().string() : flags.alias;
  options.model_path = path;
  options.chat_template = flags.chat_template.source();
  options.template_arguments = flags.chat_template.variables();
  options.sampling = flags.sampling.choices();
  options.parallel = flags.parallel;
  options.max_waiting = flags.max_waiting;
  options.keys.assign(flags.keys.begin(), flags.keys.end());
  if (!flags.key_file.empty()) {
    const std::vector<ApiKey> more = read_key_file(flags.key_file);
    options.keys.insert(options.keys.end(), more.begin(), more.end());
  }
  for (const ApiKey& key : options.keys) {
    if (key.text.empty()) {
      throw UsageError("--api-key: the key is empty");
    }
  }
  options.cors_origins = flags.origins;
  options.local = flags.host == "localhost" || flags.host == "::1" || flags.host.starts_with("127.");
  if (!options.local && options.keys.empty()) {
    log_warning("anybody who reaches {} may use this server; --api-key asks for a key", flags.host);
  }
  options.client_share = flags.client_share;
  options.max_priority = flags.max_priority;
  options.request_memory = flags.request_memory_mib > 0 ? flags.request_memory_mib << 20 : usual_request_memory();
  options.request_work = static_cast<std::uint64_t>(flags.request_work_millions * 1e6);
  if (flags.request_seconds > 0.0) {
    options.request_time = milliseconds(flags.request_seconds);
  }
  options.pooling = pooling(flags.pooling);
  options.strict_fields = flags.strict_fields;
  if (flags.allow_pull) {
    options.pull = pull_for_client;
  }
  options.page = !flags.no_page;
  options.slots = !flags.no_slots;
  options.version = ROCMFORGE_VERSION;
  options.log = {.json = flags.log_format == "json", .requests = flags.log_requests, .file = flags.log_file};
  return options;
}

/// The engine's options; unless it was given a size the cache holds some full contexts, or a usual one for every answer.
EngineOptions engine_options(const ServeFlags& flags, const std::string& path) {
  constexpr std::int32_t full_contexts = 4;
  constexpr std::int64_t usual_tokens = 1024;
  EngineOptions options = flags.engine.options();
  options.max_sequences = flags.parallel;
  options.max_batch_tokens = std::max(options.max_batch_tokens, flags.parallel);
  options.model.max_batch_tokens = options.max_batch_tokens;
  options.prefix_cache = !flags.no_prefix_cache;
  options.kv_tokens = flags.kv_tokens;
  options.max_prefill_seconds = flags.prompt_seconds;
  if (options.kv_tokens == 0) {
    const std::int64_t context = context_length(options, ModelConfig::from_gguf(GgufFile(path)));
    options.kv_tokens =
        std::max(context * std::min(flags.parallel, full_contexts), std::min(context, usual_tokens) * flags.parallel);
  }
  return options;
}

sigset_t end_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

/// Waits for a signal that ends the program, for at most so long.
bool signal_came(std::chrono::nanoseconds time = std::chrono::milliseconds(100)) {
  const sigset_t signals = end_signals();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const timespec wait = {.tv_sec = seconds.count(), .tv_nsec = (time - seconds).count()};
  return sigtimedwait(&signals, nullptr, &wait) > 0;
}

/// What requests have given back goes back to the system. The allocator's own way is to keep freed blocks of up to 32 MiB in
/// many heaps: then resident memory passes what requests may hold. A heap is for one thread at a time: were there two, the
/// thread that moves bytes would wait for those that read them.
void limit_heaps() {
#ifdef __GLIBC__
  constexpr int mapped_bytes = 128 << 10, most_heaps = 8;
  mallopt(M_MMAP_THRESHOLD, mapped_bytes);
  mallopt(M_ARENA_MAX, most_heaps);
#endif
}

/// Gives back the free pages between those in use.
void return_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

int serve(const ServeFlags& flags) {
  limit_heaps();                                                             // before any thread begins
  const std::string path = find_model(flags.model, flags.engine.options());  // Ctrl-C ends a download
  // Before any other thread begins, so that all of them leave these signals to signal_came().
  const sigset_t signals = end_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  const EngineOptions options = engine_options(flags, path);
  Server server(server_options(flags, path));
  fmt::print("{}\n", server.url());
  std::fflush(stdout);

  auto loading = std::async(std::launch::async, [&] { return load_model(path, options); });
  while (loading.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    if (signal_came()) {
      server.log().event("stopped while the model was loading");
      std::quick_exit(0);  // loading can't be interrupted
    }
  }
  std::unique_ptr<Engine> engine = loading.get();
  if (!flags.chat_template.think.empty()) {
    static_cast<void>(choose_templates(*engine, flags.chat_template));  // refuses what the template does not know
  }
  server.serve(std::move(engine));
  while (!signal_came(std::chrono::seconds(1))) {
    return_freed_memory();
  }
  server.log().event(fmt::format("shutting down: running requests have {} s to end; another signal ends them at once",
                                 flags.drain_seconds));
  const bool all_ended =
      server.drain(milliseconds(flags.drain_seconds), [] { return signal_came(std::chrono::nanoseconds(0)); });
  server.log().event(all_ended ? "all requests have ended" : "requests were cancelled");
  return 0;
}

void add_server_flags(Command& command, ServeFlags& flags) {
  const auto add = [&](Option option) {
    option.group = "Server";
    command.options.push_back(std::move(option));
  };
  const Range seconds = {.least = 0, .most = 1e6};
  add({"--host", &flags.host, "Address to listen at; 0.0.0.0 for all", "ADDRESS"});
  add({.names = "--port",
       .target = &flags.port,
       .meaning = "Port",
       .range = {.least = 0, .most = 65535, .note = "0: a free one, which is printed"}});
  add({"-a,--alias", &flags.alias, "The model's name for clients; without it the file's", "NAME"});
  add({.names = "--pooling",
       .target = &flags.pooling,
       .meaning = "Of embeddings",
       .choices = {"mean", "last", "cls", "none"}});
  add({.names = "--parallel",
       .target = &flags.parallel,
       .meaning = "Answers computed at once",
       .range = {.least = 1, .most = 4096},
       .also = "-np"});
  add({.names = "--max-waiting",
       .target = &flags.max_waiting,
       .meaning = "Answers that may wait beside them",
       .range = {.least = 0, .most = 1'000'000}});
  add({.names = "--kv-tokens",
       .target = &flags.kv_tokens,
       .meaning = "Positions the KV cache holds in all",
       .range = {.least = 0,
                 .most = static_cast<double>(std::int64_t{1} << 40),
                 .note = "0: four full contexts, or 1,024 for each answer"}});
  add({.names = "--prompt-seconds",
       .target = &flags.prompt_seconds,
       .meaning = "Seconds that prompts may hold up answers in a step; 0: any",
       .range = seconds});
  add({.names = "--request-timeout",
       .target = &flags.request_seconds,
       .meaning = "Seconds a request may take; 0: any",
       .range = seconds});
  add({.names = "--drain-seconds",
       .target = &flags.drain_seconds,
       .meaning = "Seconds that running requests have at the end",
       .range = seconds});
  add({.names = "--max-connections",
       .target = &flags.max_connections,
       .meaning = "Connections at once",
       .range = {.least = 1, .most = 65'536}});
  add({.names = "--max-body",
       .target = &flags.max_body_mib,
       .meaning = "MiB a request may have",
       .range = {.least = 1, .most = 1024}});
  add({.names = "--request-memory",
       .target = &flags.request_memory_mib,
       .meaning = "MiB that all requests and answers hold together",
       .range = {.least = 0, .most = 1 << 20, .note = "0: 512, or an eighth of what is free"}});
  add({.names = "--request-work",
       .target = &flags.request_work_millions,
       .meaning = "Million units of work to read a request, 20 ns each",
       .range = {.least = 0.001, .most = 1e9}});
  add({.names = "--client-share",
       .target = &flags.client_share,
       .meaning = "Percent of places, connections and memory for a client beside others",
       .range = {.least = 1, .most = 100}});
  add({.names = "--max-priority",
       .target = &flags.max_priority,
       .meaning = "How far below 0 a request's priority may be",
       .range = {.least = 0, .most = 1000}});
  add({.names = "--api-key",
       .target = &flags.keys,
       .meaning = "Serve only requests with this key (may be repeated)",
       .value = "KEY",
       .environment = "ROCMFORGE_API_KEY"});
  add({"--api-key-file", &flags.key_file, "Keys, one a line, each with max-priority=N behind it or without", "FILE"});
  add({"--cors-origin", &flags.origins, "Let pages of this origin use the server; *: of any (may be repeated)", "ORIGIN"});
  add({.names = "--log-format", .target = &flags.log_format, .meaning = "Of the log's lines", .choices = {"text", "json"}});
  add({"--log-file", &flags.log_file, "Append the log to a file; without it standard error", "FILE"});
  add({"--log-requests", &flags.log_requests, "Log what is asked and answered as well"});
  add({"--no-prefix-cache", &flags.no_prefix_cache, "Compute every prompt from its start"});
  add({"--strict-fields", &flags.strict_fields, "Refuse requests with fields that are not known"});
  add({"--allow-pull", &flags.allow_pull,
       "Clients may download models into the hub's cache (POST /api/pull), and so fill the disc"});
  add({"--no-page", &flags.no_page, "No web page at /"});
  add({"--no-slots", &flags.no_slots, "No /slots"});
}

}  // namespace

Command serve_command() {
  auto flags = std::make_shared<ServeFlags>();
  Command command = {
      .name = "serve",
      .summary = "Serve a model over HTTP, by the APIs of OpenAI, Anthropic and Ollama",
      .notes =
          "The address is printed once the server listens; requests are answered with 503 until the model is loaded. "
          "What is said here of sampling and the chat template holds where a request says nothing.",
      .examples = {"rocmforge serve", "rocmforge serve model.gguf --port 9000 --parallel 64 --ctx-size 4096 --temp 0.6",
                   "curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' -d '{\"messages\": "
                   "[{\"role\": \"user\", \"content\": \"What is 127 + 458?\"}]}'"},
      .action = [flags] { return serve(*flags); }};
  add_model(command, flags->model);
  add_server_flags(command, *flags);
  flags->sampling.add_to(command);
  flags->chat_template.add_to(command);
  flags->engine.add_to(command);
  return command;
}

}  // namespace rocmforge::app
