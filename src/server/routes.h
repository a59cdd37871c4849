#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/generation.h"
#include "server/api/ollama_pull.h"
#include "server/exchange.h"
#include "server/model_service.h"
#include "server/server.h"

namespace rocmforge {

/// What the route functions use.
struct ServerState {
  ServerOptions options;
  std::shared_ptr<ModelService> service = std::make_shared<ModelService>();
  ModelPulls pulls{};
  std::atomic<bool> draining{false};
  std::atomic<const Backend*> backend{nullptr};  ///< null while the model loads
};

using RouteFunction = std::function<void(const std::shared_ptr<Exchange>&, ServerState&)>;

struct Route {
  std::string_view method;
  std::string path;         ///< one that ends with '/' matches any last part: "/cancel/"
  RouteFunction serve;      ///< throws ApiError
  bool is_public = false;   ///< needs no key
  bool needs_model = true;  ///< is answered with 503 while no model is loaded
  bool is_quick = false;    ///< runs at once instead of on a worker
  bool is_vital = false;    ///< is answered even when all connections are taken
  ErrorForm error_form = ErrorForm::openai;
};

/// Every route; `docs/server.md` lists them.
std::vector<Route> server_routes(const ServerOptions& options);

/// Whether the route serves `path`.
bool matches(const Route& route, std::string_view path);

}  // namespace rocmforge
