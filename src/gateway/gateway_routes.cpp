#include "gateway/gateway_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "gateway/model_lists.h"
#include "server/api/fields.h"
#include "server/api/sampling_fields.h"
#include "server/api/status.h"
#include "server/router.h"

namespace rocmforge {
namespace {

using Exchange = std::shared_ptr<HttpExchange>;
/// Functions by the method and path of the routes that they replace.
using OwnRoutes = std::map<std::string, RouteFunction>;

/// The name in a request of /models/load and /models/unload. Throws ApiError for one that is not known.
std::string named_model(HttpExchange& exchange, const ModelPool& pool) {
  const Document body(exchange.take_json());
  Fields fields(body.root);
  std::string name = fields.needed_text("model");
  if (!pool.knows(name)) {
    throw no_such_model(name);
  }
  return name;
}

void send_state(const Exchange& exchange, const ServerState& state, const char* status) {
  if (state.draining) {
    throw shutting_down();
  }
  exchange->send_json(Json{{"status", status}});
}

/// What the server answers itself, from the states of the models.
OwnRoutes own_routes(ModelPool& pool, Forwarder& forwarder) {
  OwnRoutes own;
  const auto list = [&pool](Json (*write)(const std::vector<ModelStatus>&)) {
    return [&pool, write](const Exchange& exchange, ServerState&) { exchange->send_json(write(pool.status())); };
  };
  for (const char* path : {"GET /v1/models", "GET /models"}) {
    own[path] = list(model_list);
  }
  own["GET /api/tags"] = list(ollama_tags);
  own["GET /api/ps"] = list(ollama_loaded);
  own["GET /v1/models/{model}"] = [&pool](const Exchange& exchange, ServerState&) {
    const std::string id = decode_percent(exchange->request.path_part);
    if (!pool.knows(id)) {
      throw no_such_model(id);
    }
    exchange->send_json(model_entry(pool.status(id)));
  };
  for (const char* path : {"GET /health", "GET /v1/health"}) {  // the router works whatever its models do
    own[path] = [](const Exchange& exchange, ServerState&) { exchange->send_json(Json{{"status", "ok"}}); };
  }
  own["GET /ready"] = [](const Exchange& exchange, ServerState& state) { send_state(exchange, state, "ready"); };
  own["POST /api/pull"] = [](const Exchange&, ServerState&) {
    throw ApiError(403, "a server of several models downloads none for clients");
  };
  // Ids that one of the models has given.
  for (const char* path : {"POST /cancel/{id}", "GET /v1/responses/{id}", "DELETE /v1/responses/{id}"}) {
    own[path] = [&forwarder](const Exchange& exchange, ServerState& state) { forwarder.ask_loaded(exchange, state); };
  }
  return own;
}

/// Asks the model that the query names, or without one answers for the router.
RouteFunction of_model_or(void (*serve)(const Exchange&, ServerState&), Forwarder& forwarder) {
  return [&forwarder, serve](const Exchange& exchange, ServerState& state) {
    exchange->request.parameter("model") ? forwarder.forward(exchange, state) : serve(exchange, state);
  };
}

void serve_router_props(const Exchange& exchange, ServerState& state) {
  Json params = sampling_json({});
  params["n_predict"] = -1;
  exchange->send_json(Json{{"role", "router"},
                           {"default_generation_settings", {{"params", std::move(params)}}},
                           {"build_info", fmt::format("b-rocmforge {}", state.options.version)}});
}

}  // namespace

std::vector<Route> gateway_routes(const ServerOptions& options, ModelPool& pool, Forwarder& forwarder) {
  OwnRoutes own = own_routes(pool, forwarder);
  own["GET /props"] = of_model_or(serve_router_props, forwarder);
  own["GET /metrics"] = of_model_or(serve_metrics, forwarder);
  std::vector<Route> routes = server_routes(options);
  for (Route& route : routes) {
    const auto found = own.find(fmt::format("{} {}", route.method, route.path));
    if (found != own.end()) {
      route.serve = found->second;
    } else if (route.needs_model) {
      route.serve = [&forwarder](const Exchange& exchange, ServerState& state) { forwarder.forward(exchange, state); };
    } else {
      continue;
    }
    route.needs_model = false;
    route.is_quick = true;  // what takes long runs on threads of the forwarder
  }
  routes.push_back({.method = "POST",
                    .path = "/models/load",
                    .serve =
                        [&pool](const Exchange& exchange, ServerState&) {
                          const std::string name = named_model(*exchange, pool);
                          if (!pool.load(name)) {
                            throw ApiError(400, fmt::format("the model '{}' is loaded already", name), "model");
                          }
                          exchange->send_json(Json{{"success", true}});
                        },
                    .needs_model = false});
  routes.push_back({.method = "POST",
                    .path = "/models/unload",
                    .serve =
                        [&pool](const Exchange& exchange, ServerState&) {
                          const std::string name = named_model(*exchange, pool);
                          if (!pool.unload(name)) {
                            throw ApiError(400, fmt::format("the model '{}' is not loaded", name), "model");
                          }
                          exchange->send_json(Json{{"success", true}});
                        },
                    .needs_model = false});
  return routes;
}

}  // namespace rocmforge
