#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/access.h"
#include "server/api/json.h"
#include "server/http/http_server.h"
#include "server/request_log.h"
#include "service/model.h"

namespace rocmforge {

struct ModelService;
struct Route;

/// Progress of a model's download, in Ollama's words.
struct PullStatus {
  std::string status;
  std::string digest{};  ///< "sha256:..." of the file that is downloaded; "" for none
  std::uint64_t total = 0;
  std::uint64_t completed = 0;
};

/// A model that a client wants to have downloaded.
struct PullRequest {
  std::string name;
  bool with_token = false;  ///< the client may use the operator's token for the hub
};

/// Downloads a model. Calls `tell` at least once a second, and ends when it returns false. Throws Error.
using PullFunction = std::function<void(const PullRequest& request, const std::function<bool(const PullStatus&)>& tell)>;

/// client_share is that of memory and connections too.
struct ServerOptions : ServiceOptions {
  std::string host = "127.0.0.1";  ///< or the path of a unix socket
  std::uint16_t port = 8080;       ///< 0: a free one
  HttpLimits http{};
  std::vector<ApiKey> keys{};
  std::vector<std::string> cors_origins{};
  std::int32_t max_priority = 0;                            ///< how far below 0 a request's priority may be
  bool share_prefixes = false;                              ///< several keys use the prefixes of each other's prompts
  bool isolate_keys = false;                                ///< also one key alone has prefixes of its own, in files too
  std::int64_t request_memory = std::int64_t{512} << 20;    ///< bytes of all requests and answers together
  std::uint64_t request_work = 200'000'000;                 ///< units of work to read a request; see WorkBudget
  std::vector<std::string> hosts = {"*"};                   ///< the server's names; see AccessRules
  std::optional<std::chrono::milliseconds> request_time{};  ///< the longest that a request may take
  bool strict_fields = false;                               ///< unknown fields are refused, not ignored
  PullFunction pull{};                                      ///< of /api/pull; empty: clients may download nothing
  bool behind_router = false;                               ///< see server/forwarded_client.h; only at a unix socket
  bool pull_token = false;                                  ///< clients without a key may use the operator's token too
  std::string adapter_folder{};  ///< clients may load adapters of this folder, and unload any; "": they may not
  bool page = true;
  bool slots = true;
  std::string slot_folder{};  ///< slots are saved in files of this folder; "": they are not
  std::string version = "0";
  LogOptions log{};
};

/// The HTTP API of one model (docs/server.md). Listens at once; until serve() is called, routes that need the model answer
/// 503.
class Server {
 public:
  /// Throws Error when the address or the log file can't be used.
  explicit Server(const ServerOptions& options);
  /// The same for a model that others in the process use too. If `service` has been started, serve() is not
  /// called, and the options of the model have no effect.
  Server(const ServerOptions& options, std::shared_ptr<ModelService> service);
  /// A server with other routes.
  Server(const ServerOptions& options, std::vector<Route> routes);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string url() const;  ///< "http://127.0.0.1:8080", or "unix:PATH"
  [[nodiscard]] RequestLog& log();

  /// Call when the model has been loaded.
  void serve(std::unique_ptr<Engine> engine);
  /// The model as /v1/models describes it. Call after serve().
  [[nodiscard]] Json description() const;

  /// Accepts no more requests, waits for the running ones up to `limit` or until `hurry` is true, and cancels the rest (if
  /// others use the model too, in the destructor). Returns whether none had to be cancelled.
  bool drain(std::chrono::milliseconds limit, const std::function<bool()>& hurry = {});

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace rocmforge
