#include "serve/serve_gateway.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
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

constexpr const char* folder_prefix = "rocmforge-models-";

/// Opens a folder and locks it; -1 where another process holds the lock, or it is another user's.
int lock_folder(const fs::path& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder >= 0 && ::flock(folder, LOCK_EX | LOCK_NB) != 0) {
    ::close(folder);
    return -1;
  }
  return folder;
}

/// Removes what killed routers have left: folders that nobody has locked, unless one is so new that its router may not have
/// come to that.
void remove_old_folders(const fs::path& place) {
  constexpr std::chrono::seconds time_to_lock{10};
  std::error_code problem, ignored;
  for (fs::directory_iterator entry(place, problem); !problem && entry != fs::directory_iterator();
       entry.increment(problem)) {
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(entry->path(), ignored);
    if (!entry->path().filename().string().starts_with(folder_prefix) || age < time_to_lock) {
      continue;
    }
    if (const int folder = lock_folder(entry->path()); folder >= 0) {
      fs::remove_all(entry->path(), ignored);
      ::close(folder);
    }
  }
}

/// A folder that only this user can open, for the sockets of the models' processes.
class SocketFolder {
 public:
  SocketFolder() {
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    std::error_code ignored;
    const bool has_runtime = runtime != nullptr && fs::is_directory(runtime, ignored);
    const fs::path place = has_runtime ? fs::path(runtime) : fs::temp_directory_path();
    remove_old_folders(place);
    std::string path = (place / fmt::format("{}XXXXXX", folder_prefix)).string();
    if (::mkdtemp(path.data()) == nullptr) {
      throw Error("no folder for sockets can be made there").in(path);
    }
    path_ = path;
    lock_ = lock_folder(path_);
  }
  ~SocketFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    ::close(lock_);
  }
  SocketFolder(const SocketFolder&) = delete;
  SocketFolder& operator=(const SocketFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  int lock_ = -1;
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
  listen.apply(options, true);  // whichever models see any
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
  const std::string_view end = serve_until_signal(server, listen.drain_seconds);
  forwarder.stop();
  pool.stop();
  log.event(end);
  return 0;
}

}  // namespace rocmforge::app
