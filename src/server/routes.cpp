#include "server/routes.h"

#include <fmt/format.h>

#include <utility>

#include "server/api/adapters.h"
#include "server/api/anthropic/anthropic.h"
#include "server/api/embeddings.h"
#include "server/api/llama_server/apply_template.h"
#include "server/api/llama_server/infill.h"
#include "server/api/llama_server/llama_server.h"
#include "server/api/llama_server/tokenization.h"
#include "server/api/ollama/ollama.h"
#include "server/api/openai/chat.h"
#include "server/api/openai/completions.h"
#include "server/api/openai/responses.h"
#include "server/api/openai/transcriptions.h"
#include "server/api/rerank.h"
#include "server/api/status.h"
#include "server/page_files.h"

namespace rocmforge {
namespace {

/// A route of the model's.
RouteFunction with_backend(void (*serve)(const std::shared_ptr<HttpExchange>&, const Backend&)) {
  return [serve](const std::shared_ptr<HttpExchange>& exchange, ServerState& state) {
    serve(exchange, state.needed_backend());
  };
}

void serve_pull(const std::shared_ptr<HttpExchange>& exchange, ServerState& state) {
  serve_ollama_pull(exchange, state.options, state.pulls);
}

void serve_slot(const std::shared_ptr<HttpExchange>& exchange, ServerState& state) {
  serve_slot_action(exchange, state.needed_backend(), state.options.slot_folder, state.slots);
}

void serve_cancel(const std::shared_ptr<HttpExchange>& exchange, ServerState& state) {
  const std::string& id = exchange->request.path_part;
  if (!state.service->active.cancel(id, exchange->request.owner)) {
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
    routes.push_back({.method = "GET",
                      .path = path,
                      .serve =
                          [file](const std::shared_ptr<HttpExchange>& exchange, ServerState&) {
                            exchange->send(HttpResponse{.content_type = std::string(content_type(file.name)),
                                                        .body = std::string(file.bytes),
                                                        .headers = {{"Content-Security-Policy", std::string(page_policy)},
                                                                    {"X-Content-Type-Options", "nosniff"},
                                                                    {"Referrer-Policy", "no-referrer"},
                                                                    {"Cache-Control", "no-cache"}}});
                          },
                      .is_public = true,
                      .needs_model = false,
                      .is_quick = true});
  }
}

}  // namespace

ApiError still_loading() {
  ApiError error(503, "Loading model");
  error.retry_after_seconds = 1;
  error.details = {{"code", 503}};  // as llama-server's clients know it
  return error;
}

std::optional<Backend> ServerState::backend() const {
  const std::shared_ptr<ModelInstance> instance = service->models.first();
  if (instance == nullptr) {
    return std::nullopt;
  }
  return Backend{.instance = instance,
                 .model = instance->facts(),
                 .active = service->active,
                 .responses = service->responses,
                 .request_time = options.request_time,
                 .strict_fields = options.strict_fields};
}

Backend ServerState::needed_backend() const {
  std::optional<Backend> backend = this->backend();
  if (!backend) {
    throw still_loading();
  }
  return std::move(*backend);
}

std::vector<Route> server_routes(const ServerOptions& options) {
  std::vector<Route> routes;
  const auto add = [&](std::initializer_list<std::string_view> paths, Route row) {
    for (const std::string_view path : paths) {
      row.path = path;
      routes.push_back(row);
    }
  };
  const auto post = [&](std::initializer_list<std::string_view> paths, RouteFunction serve, ErrorForm error = openai_error) {
    add(paths, {.method = "POST", .serve = std::move(serve), .error = error});
  };
  /// What is answered at once. `open`: without a key.
  const auto get = [&](std::initializer_list<std::string_view> paths, RouteFunction serve, bool open = false,
                       ErrorForm error = openai_error) {
    add(paths, {.method = "GET", .serve = std::move(serve), .is_public = open, .is_quick = true, .error = error});
  };
  /// What the server says of itself, also without a model.
  const auto state = [&](std::initializer_list<std::string_view> paths, RouteFunction serve, Route row) {
    row.method = "GET";
    row.serve = std::move(serve);
    row.needs_model = false;
    row.is_quick = true;
    add(paths, std::move(row));
  };
  post({"/v1/chat/completions", "/chat/completions"}, with_backend(serve_chat));
  post({"/v1/completions"}, with_backend(serve_completion));
  post({"/v1/responses"}, with_backend(serve_response));
  post({"/v1/responses/input_tokens"}, with_backend(serve_response_input_tokens));
  get({"/v1/responses/{id}"}, with_backend(serve_stored_response));
  add({"/v1/responses/{id}"}, {.method = "DELETE", .serve = with_backend(serve_response_removal), .is_quick = true});
  post({"/v1/audio/transcriptions", "/audio/transcriptions"}, with_backend(serve_transcription));
  post({"/v1/messages"}, with_backend(serve_anthropic_messages), anthropic_error);
  post({"/v1/messages/count_tokens"}, with_backend(serve_anthropic_count_tokens), anthropic_error);
  post({"/api/chat"}, with_backend(serve_ollama_chat), ollama_error);
  post({"/api/generate"}, with_backend(serve_ollama_generate), ollama_error);
  post({"/api/embed"}, with_backend(serve_ollama_embed), ollama_error);
  post({"/api/embeddings"}, with_backend(serve_ollama_embeddings), ollama_error);
  post({"/api/show"}, with_backend(serve_ollama_show), ollama_error);
  post({"/api/pull"}, serve_pull, ollama_error);
  get({"/api/tags"}, with_backend(serve_ollama_tags), false, ollama_error);
  get({"/api/ps"}, with_backend(serve_ollama_ps), false, ollama_error);
  state({"/api/version"}, serve_version, {.is_public = true, .error = ollama_error});
  post({"/v1/embeddings", "/embeddings"}, with_backend(serve_embeddings));
  post({"/embedding"}, with_backend(serve_llama_embedding));
  post({"/v1/rerank", "/rerank", "/v2/rerank", "/v1/reranking", "/reranking"}, with_backend(serve_rerank));
  post({"/generate", "/completion", "/completions"}, with_backend(serve_llama_completion));
  post({"/infill"}, with_backend(serve_infill));
  post({"/tokenize"}, with_backend(serve_tokenize));
  post({"/detokenize"}, with_backend(serve_detokenize));
  post({"/apply-template"}, with_backend(serve_apply_template));
  post({"/cancel/{id}"}, serve_cancel);
  get({"/lora-adapters"}, serve_adapters);
  post({"/lora-adapters"}, serve_adapter_scales);
  post({"/v1/load_lora_adapter"}, serve_adapter_load);
  post({"/v1/unload_lora_adapter"}, serve_adapter_unload);
  state({"/health", "/v1/health"}, serve_health, {.is_public = true, .is_vital = true});
  state({"/ready"}, serve_ready, {.is_public = true, .is_vital = true});
  state({"/version"}, serve_version, {.is_public = true});
  state({"/metrics"}, serve_metrics, {.is_vital = true});
  get({"/v1/models", "/models"}, serve_models, true);
  get({"/v1/models/{model}"}, serve_model, true);
  get({"/tokenizer_info"}, with_backend(serve_tokenizer_info));
  get({"/props"}, serve_props);
  get({"/slots"}, serve_slots);
  post({"/slots/{id}"}, serve_slot);
  if (options.page) {
    add_page(routes);
  }
  return routes;
}

}  // namespace rocmforge
