#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/generation.h"
#include "server/api/llama_server/slots.h"
#include "server/api/ollama/ollama_pull.h"
#include "server/http_exchange.h"
#include "server/model_service.h"
#include "server/server.h"

namespace rocmforge {

/// What the route functions use.
struct ServerState {
  ServerOptions options;
  std::shared_ptr<ModelService> service = std::make_shared<ModelService>();
  ModelPulls pulls{};
  SlotWork slots{};
  std::atomic<bool> draining{false};

  /// For a request to the model; empty while no model is loaded.
  [[nodiscard]] std::optional<Backend> backend() const;
  /// The same. Throws ApiError(503) while no model is loaded.
  [[nodiscard]] Backend needed_backend() const;
};

using RouteFunction = std::function<void(const std::shared_ptr<HttpExchange>&, ServerState&)>;

/// One route, with all that the server has to know of it.
struct Route {
  std::string_view method{};
  /// Without a slash at its end. A name in braces stands for any text that is not empty, which becomes
  /// HttpRequest::path_part: "/cancel/{id}", "/models/{model}:count". It may hold slashes, as names of models do.
  std::string path{};
  RouteFunction serve{};           ///< throws ApiError
  bool is_public = false;          ///< needs no key
  bool needs_model = true;         ///< is answered with 503 while no model is loaded
  bool is_quick = false;           ///< runs at once instead of on a worker
  bool is_vital = false;           ///< is answered even when all connections are taken, as monitoring must be
  ErrorForm error = openai_error;  ///< the form of its refusals
};

/// No model is loaded (503).
ApiError still_loading();

/// Every route; `docs/server.md` lists them.
std::vector<Route> server_routes(const ServerOptions& options);

}  // namespace rocmforge
