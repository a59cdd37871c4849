#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/client.h"
#include "server/local_client.h"
#include "server/running_server.h"

namespace rocmforge {

/// The routes of a server with a model, called in this process: without a port, keys and a log.
class LocalServer {
 public:
  /// With the fake model, as FakeServer. `more`: routes beside the server's.
  explicit LocalServer(TestServerOptions options = {}, FakeModel::Script script = {}, const std::vector<Route>& more = {});
  LocalServer(std::unique_ptr<Engine> engine, const ServerOptions& options, const std::vector<Route>& more = {});

  [[nodiscard]] HttpAnswer request(const std::string& method, std::string_view path, std::string body = "") const;
  [[nodiscard]] const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  std::shared_ptr<ModelService> service_ = std::make_shared<ModelService>();
  std::unique_ptr<LocalClient> client_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

/// The same with the demo model on the CPU, which `placement` may split.
std::unique_ptr<LocalServer> local_demo(const PlacementOptions& placement = {}, std::int32_t ranks = 1);

// The same calls for servers of both kinds.

inline HttpAnswer get(const LocalServer& server, std::string_view path) { return server.request("GET", path); }
inline HttpAnswer post_text(const LocalServer& server, std::string_view path, std::string body) {
  return server.request("POST", path, std::move(body));
}
inline HttpAnswer post(const LocalServer& server, std::string_view path, const Json& body) {
  return post_text(server, path, body.dump());
}
inline HttpAnswer post(const FakeServer& server, std::string_view path, const Json& body) {
  return post(server.port(), path, body);
}

}  // namespace rocmforge
