#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <chrono>
#include <csignal>
#include <cstddef>
#include <ctime>
#include <exception>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "command.h"
#include "commands/pull_model.h"
#include "commands/step_timeout.h"
#include "flags.h"
#include "hub/image_fetch.h"
#include "model_path.h"
#include "prompts.h"
#include "serve_flags.h"
#include "server/server.h"

namespace rocmforge::app {
namespace {

struct ServeFlags {
  ModelArgument model;
  ListenFlags listen;
  ServiceFlags service;
  bool allow_image_urls = false;
  std::string image_folder;
  bool allow_pull = false;
  bool pull_token = false;
  SamplingFlags sampling;
  TemplateFlags chat_template;
  EngineFlags engine;
};

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000.0));
}

sigset_t end_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

/// Waits at most `time` for a signal that ends the program. Returns whether one arrived.
bool signal_came(std::chrono::nanoseconds time = std::chrono::milliseconds(100)) {
  const sigset_t signals = end_signals();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const timespec wait = {.tv_sec = seconds.count(), .tv_nsec = (time - seconds).count()};
  return sigtimedwait(&signals, nullptr, &wait) > 0;
}

/// Makes the allocator return the freed memory of requests to the system. By default it keeps freed blocks of up to 32 MiB
/// in many heaps, so that resident memory exceeds the limit of requests. Only one thread at a time can use a heap: with two
/// heaps, the network thread would wait for the threads that read requests.
void limit_heaps() {
#ifdef __GLIBC__
  constexpr int mapped_bytes = 128 << 10, most_heaps = 8;
  mallopt(M_MMAP_THRESHOLD, mapped_bytes);
  mallopt(M_ARENA_MAX, most_heaps);
#endif
}

/// Returns free pages between used ones to the system.
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
  EngineOptions options = flags.service.engine_options(flags.engine);
  flags.engine.find_image_encoder(options, path);
  if (options.kv_tokens == 0) {
    options.kv_tokens = usual_kv_tokens(options, path);
  }
  ServerOptions server_options = flags.service.server_options(path, flags.sampling.choices(), flags.chat_template);
  flags.listen.apply(server_options);
  server_options.image_sources.folder = flags.image_folder;
  if (flags.allow_image_urls) {
    server_options.image_sources.fetch = [](const std::string& url, std::size_t most_bytes) {
      return hub::fetch_image(url, most_bytes);
    };
  }
  if (flags.allow_pull) {
    server_options.pull = pull_for_client;
    server_options.pull_token = flags.pull_token;
  }
  server_options.on_abandoned = [](const std::string&) {   // which the engine's loop has logged
    std::this_thread::sleep_for(std::chrono::seconds(1));  // running requests get their error
    _exit(exit_step_timeout);
  };
  Server server(server_options);
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
    static_cast<void>(choose_templates(*engine, flags.chat_template));  // throws if the template has no such choice
  }
  server.serve(std::move(engine));
  while (!signal_came(std::chrono::seconds(1))) {
    return_freed_memory();
  }
  server.log().event(fmt::format("shutting down: running requests have {} s to end; another signal ends them at once",
                                 flags.listen.drain_seconds));
  const bool all_ended =
      server.drain(milliseconds(flags.listen.drain_seconds), [] { return signal_came(std::chrono::nanoseconds(0)); });
  server.log().event(all_ended ? "all requests have ended" : "requests were cancelled");
  return 0;
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
  flags->listen.add_to(command);
  flags->service.add_to(command);
  command.options.push_back(
      {.names = "--allow-image-urls",
       .target = &flags->allow_image_urls,
       .meaning = "Fetch images that requests name by http and https addresses, never from private ones",
       .group = "Server"});
  command.options.push_back({.names = "--image-folder",
                             .target = &flags->image_folder,
                             .meaning = "Read images that requests name by file:// addresses below this folder",
                             .value = "FOLDER",
                             .group = "Server"});
  command.options.push_back(
      {.names = "--allow-pull",
       .target = &flags->allow_pull,
       .meaning = "Clients may download models into the hub's cache (POST /api/pull), and so fill the disc",
       .group = "Server"});
  command.options.push_back({.names = "--pull-with-token",
                             .target = &flags->pull_token,
                             .meaning = "Clients without a key may download with this machine's token for the hub too",
                             .group = "Server"});
  flags->sampling.add_to(command);
  flags->chat_template.add_to(command);
  flags->engine.add_to(command);
  return command;
}

}  // namespace rocmforge::app
