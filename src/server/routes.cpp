#include "server/routes.h"

#include <fmt/format.h>

#include "server/api/anthropic.h"
#include "server/api/chat.h"
#include "server/api/chat_prompt.h"
#include "server/api/completions.h"
#include "server/api/embeddings.h"
#include "server/api/infill.h"
#include "server/api/information.h"
#include "server/api/native.h"
#include "server/api/ollama.h"
#include "server/api/rerank.h"
#include "server/api/responses.h"
#include "server/api/tokenization.h"
#include "server/page_files.h"

namespace rocmforge {
namespace {

/// A route of the model's.
RouteFunction with_backend(void (*serve)(const std::shared_ptr<Exchange>&, const Backend&)) {
  return [serve](const std::shared_ptr<Exchange>& exchange, ServerState& state) { serve(exchange, *state.backend.load()); };
}

void serve_pull(const std::shared_ptr<Exchange>& exchange, ServerState& state) {
  serve_ollama_pull(exchange, state.options, state.pulls);
}

void serve_cancel(const std::shared_ptr<Exchange>& exchange, ServerState& state) {
  const std::string id = exchange->request.path.substr(exchange->request.path.rfind('/') + 1);
  if (!state.service->active().cancel(id, exchange->request.owner)) {
    throw ApiError(404, fmt::format("no request '{}' is under way", id.substr(0, 64)));
  }
  exchange->send_json(Json{{"id", id}, {"cancelled", true}});
}

std::string_view content_type(std::string_view name) {
  return name.ends_with(".html")  ? "text/html; charset=utf-8"
         : name.ends_with(".css") ? "text/css; charset=utf-8"
         : name.ends_with(".js")  ? "text/javascript; charset=utf-8"
                                  : "image/svg+xml";
}

/// No content from other servers and no inline scripts: a model's text can't become a script even if the page has an error.
constexpr std::string_view page_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

/// index.html at "/", what it refers to below "/page/".
void add_page(std::vector<Route>& routes) {
  for (const PageFile& file : page_files()) {
    const std::string path = file.name == "index.html" ? "/" : "/page/" + std::string(file.name);
    routes.push_back({"GET", path,
                      [file](const std::shared_ptr<Exchange>& exchange, ServerState&) {
                        exchange->send(HttpResponse{.content_type = std::string(content_type(file.name)),
                                                    .body = std::string(file.bytes),
                                                    .headers = {{"Content-Security-Policy", std::string(page_policy)},
                                                                {"X-Content-Type-Options", "nosniff"},
                                                                {"Referrer-Policy", "no-referrer"},
                                                                {"Cache-Control", "no-cache"}}});
                      },
                      true, false, true});
  }
}

}  // namespace

bool matches(const Route& route, std::string_view path) {
  return route.path.size() > 1 && route.path.ends_with('/') ? path.starts_with(route.path) && path.size() > route.path.size()
                                                            : path == route.path;
}

std::vector<Route> server_routes(const ServerOptions& options) {
  std::vector<Route> routes;
  const auto post = [&](std::initializer_list<std::string_view> paths, const RouteFunction& function) {
    for (const std::string_view path : paths) {
      routes.push_back({"POST", std::string(path), function});
    }
  };
  const auto get = [&](std::initializer_list<std::string_view> paths, const RouteFunction& function, bool is_public,
                       bool needs_model) {
    for (const std::string_view path : paths) {
      routes.push_back({"GET", std::string(path), function, is_public, needs_model, true});
    }
  };
  post({"/v1/chat/completions", "/chat/completions"}, with_backend(serve_chat));
  post({"/v1/completions"}, with_backend(serve_completion));
  post({"/v1/responses"}, with_backend(serve_response));
  post({"/v1/responses/input_tokens"}, with_backend(serve_response_input_tokens));
  get({"/v1/responses/"}, with_backend(serve_stored_response), false, true);
  routes.push_back({"DELETE", "/v1/responses/", with_backend(serve_response_removal), false, true, true});
  post({"/v1/messages"}, with_backend(serve_anthropic_messages));
  post({"/v1/messages/count_tokens"}, with_backend(serve_anthropic_count_tokens));
  post({"/api/chat"}, with_backend(serve_ollama_chat));
  post({"/api/generate"}, with_backend(serve_ollama_generate));
  post({"/api/embed"}, with_backend(serve_ollama_embed));
  post({"/api/embeddings"}, with_backend(serve_ollama_embeddings));
  post({"/api/show"}, with_backend(serve_ollama_show));
  post({"/api/pull"}, serve_pull);
  get({"/api/tags"}, with_backend(serve_ollama_tags), false, true);
  get({"/api/ps"}, with_backend(serve_ollama_ps), false, true);
  get({"/api/version"}, serve_version, true, false);
  post({"/v1/embeddings", "/embeddings"}, with_backend(serve_embeddings));
  post({"/embedding"}, with_backend(serve_native_embedding));
  post({"/v1/rerank", "/rerank", "/v2/rerank", "/v1/reranking", "/reranking"}, with_backend(serve_rerank));
  post({"/generate", "/completion", "/completions"}, with_backend(serve_native));
  post({"/infill"}, with_backend(serve_infill));
  post({"/tokenize"}, with_backend(serve_tokenize));
  post({"/detokenize"}, with_backend(serve_detokenize));
  post({"/apply-template"}, with_backend(serve_apply_template));
  post({"/cancel/"}, serve_cancel);
  get({"/health", "/v1/health"}, serve_health, true, false);
  get({"/ready"}, serve_ready, true, false);
  get({"/version"}, serve_version, true, false);
  get({"/metrics"}, serve_metrics, false, false);
  get({"/v1/models", "/models"}, serve_models, true, true);
  get({"/v1/models/"}, serve_model, true, true);
  get({"/tokenizer_info"}, with_backend(serve_tokenizer_info), false, true);
  get({"/props"}, serve_props, false, true);
  get({"/slots"}, serve_slots, false, true);
  if (options.page) {
    add_page(routes);
  }
  for (Route& route : routes) {  // monitoring must work when all connections are taken
    route.is_vital = route.method == "GET" && (route.path == "/health" || route.path == "/v1/health" ||
                                               route.path == "/ready" || route.path == "/metrics");
    route.error_form = route.path.starts_with("/v1/messages") ? ErrorForm::anthropic
                       : route.path.starts_with("/api/")      ? ErrorForm::ollama
                                                              : ErrorForm::openai;
  }
  return routes;
}

}  // namespace rocmforge
