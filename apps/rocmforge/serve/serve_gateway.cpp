#include "serve/serve_gateway.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/available_memory.h"
#include "base/error.h"
#include "gateway/forwarder.h"
#include "gateway/gateway_routes.h"
#include "serve/server_process.h"
#include "server/server.h"

namespace rocmforge::app {
namespace {

namespace fs = std::filesystem;

/// A folder that only this user can open, for the sockets of the models' processes.
class SocketFolder {
 public:
  SocketFolder() {
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    std::error_code ignored;
    const bool has_runtime = runtime != nullptr && fs::is_directory(runtime, ignored);
    std::string path = ((has_runtime ? fs::path(runtime) : fs::temp_directory_path()) / "rocmforge-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) {
      throw Error("no folder for sockets can be made there").in(path);
    }
    path_ = path;
  }
  ~SocketFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  SocketFolder(const SocketFolder&) = delete;
  SocketFolder& operator=(const SocketFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void add_sockets(std::vector<ModelChoice>& choices, const std::string& folder) {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    choices[i].socket = fmt::format("{}/{}.sock", folder, i);
    choices[i].arguments.push_back("--host=" + choices[i].socket);
  }
}

PoolOptions pool_options(const GatewayFlags& flags, RequestLog& log) {
  PoolOptions options = {.program = "/proc/self/exe"};
  // The options that these variables set are among the arguments; keys are the router's own.
  options.without = {"LLAMA_ARG_", "LLAMA_API_KEY=", "OLLAMA_", "ROCMFORGE_API_KEY="};
  options.most_loaded = flags.most_loaded;
  options.memory_bytes = flags.memory_mib << 20;
  options.host_bytes = available_memory_bytes().value_or(0);
  options.keep_alive = flags.keep_alive_time();
  if (flags.sleep_seconds > 0.0) {
    options.sleep_after = milliseconds(flags.sleep_seconds);
  }
  options.log = [&log](const std::string& line) { log.event(line); };
  options.forward = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  return options;
}

}  // namespace

int serve_gateway(std::vector<ModelChoice> choices, const GatewayFlags& gateway, const ListenFlags& listen,
                  const ServiceFlags& service) {
  prepare_server_process();
  ServerOptions options = service.server_options("", {}, {});
  listen.apply(options);
  const SocketFolder folder;
  add_sockets(choices, folder.path());
  const std::size_t count = choices.size();
  RequestLog log(options.log);
  ModelPool pool(std::move(choices), pool_options(gateway, log));
  Forwarder forwarder(pool, std::int64_t{service.parallel} + service.max_waiting, listen.client_share);
  Server server(options, gateway_routes(options, pool, forwarder));
  fmt::print("{}\n", server.url());
  std::fflush(stdout);
  log.event(fmt::format("serving {} models", count));
  wait_for_signal();
  log.event(fmt::format("shutting down: running requests have {} s to end; another signal ends them at once",
                        listen.drain_seconds));
  const bool all_ended =
      server.drain(milliseconds(listen.drain_seconds), [] { return signal_came(std::chrono::nanoseconds(0)); });
  forwarder.stop();
  pool.stop();
  log.event(all_ended ? "all requests have ended" : "requests were cancelled");
  return 0;
}

}  // namespace rocmforge::app
