#include "server/api/information.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/utf8.h"
#include "server/api/json_pieces.h"
#include "server/api/prompts.h"
#include "server/api/sampling_fields.h"
#include "server/api/unserved_fields.h"

namespace rocmforge {
namespace {

ApiError loading() {
  ApiError error(503, "Loading model");
  error.retry_after_seconds = 1;
  error.details = {{"code", 503}};  // as llama-server's clients know it
  return error;
}

Json describe(const ServedModel& model) {
  return {
      {"id", model.id}, {"object", "model"}, {"created", model.created}, {"owned_by", "rocmforge"}, {"meta", model.details}};
}

/// What the template that answers requests can do; null without one.
Json template_abilities(const ServedModel& model) {
  if (model.templates == nullptr) {
    return nullptr;
  }
  const ChatAbilities& abilities = model.templates->choose({}).abilities();
  return {{"supports_system_role", abilities.system_role},
          {"supports_tools", abilities.takes_tools()},
          {"supports_thinking_switch", abilities.thinking_switch}};
}

void require_working(const ServerState& state) {
  const Backend* backend = state.backend;
  if (backend == nullptr) {
    throw loading();
  }
  if (const std::string failure = backend->loop.failure(); !failure.empty()) {
    throw ApiError(503, fmt::format("the engine has failed: {}", failure));
  }
}

/// A token's text, or its bytes where they are no text of their own.
Json piece_of(const Tokenizer& tokenizer, std::int32_t id) {
  const std::string bytes = tokenizer.token_bytes(id, true);
  std::string rest = bytes;
  std::string text = take_utf8(rest, true);
  if (text == bytes) {
    return text;
  }
  Json piece = Json::array();
  for (const char byte : bytes) {
    piece.push_back(static_cast<unsigned char>(byte));
  }
  return piece;
}

/// The text of the ids as a JSON string.
TextPieces text_in_pieces(std::shared_ptr<const Ids> ids, const std::shared_ptr<const Tokenizer>& tokenizer) {
  constexpr std::size_t step = 256;
  const auto decoder = std::make_shared<StreamDecoder>(tokenizer, true);
  const auto inside = [ids = std::move(ids), decoder, next = std::size_t{0}](std::string& out) mutable {
    const std::size_t end = std::min(next + step, ids->size());
    std::string text;
    for (; next < end; ++next) {
      text += decoder->add((*ids)[next]);
    }
    const bool goes_on = next < ids->size();
    out += escaped(goes_on ? text : text + decoder->finish());
    return goes_on;
  };
  return pieces_of({pieces_of("\""), inside, pieces_of("\"")});
}

}  // namespace

void serve_health(const std::shared_ptr<Exchange>& exchange, ServerState& state) {
  require_working(state);
  exchange->send_json(Json{{"status", "ok"}});
}

void serve_ready(const std::shared_ptr<Exchange>& exchange, ServerState& state) {
  require_working(state);
  if (state.draining) {
    throw ApiError(503, "the server is shutting down");
  }
  exchange->send_json(Json{{"status", "ready"}});
}

void serve_version(const std::shared_ptr<Exchange>& exchange, ServerState& state) {
  exchange->send_json(Json{{"version", state.options.version}});
}

void serve_metrics(const std::shared_ptr<Exchange>& exchange, ServerState& state) {
  exchange->send(HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = state.metrics.text()});
}

void serve_models(const std::shared_ptr<Exchange>& exchange, ServerState& state) {
  exchange->send_json(Json{{"object", "list"}, {"data", Json::array({describe(state.backend.load()->model)})}});
}

void serve_model(const std::shared_ptr<Exchange>& exchange, ServerState& state) {
  const ServedModel& model = state.backend.load()->model;
  const std::string id =
      decode_percent(std::string_view(exchange->request.path).substr(std::string_view("/v1/models/").size()));
  if (id != model.id) {
    throw ApiError(404, fmt::format("there is no model '{}'", id.substr(0, 64)), "model", "model_not_found");
  }
  exchange->send_json(describe(model));
}

void serve_props(const std::shared_ptr<Exchange>& exchange, ServerState& state) {
  const ServedModel& model = state.backend.load()->model;
  Json params = sampling_json(model.sampling);
  params["n_predict"] = -1;
  exchange->send_json(Json{{"default_generation_settings", {{"n_ctx", model.context_length}, {"params", params}}},
                           {"total_slots", model.parallel},
                           {"model_alias", model.id},
                           {"model_path", model.path},
                           {"chat_template", model.tokenizer == nullptr ? "" : model.tokenizer->vocabulary().chat_template},
                           {"chat_template_caps", template_abilities(model)},
                           {"chat_template_kwargs", model.template_arguments},
                           {"build_info", fmt::format("b-rocmforge {}", state.options.version)}});
}

// The engine's thread answers, between two steps.
void serve_slots(const std::shared_ptr<Exchange>& exchange, ServerState& state) {
  if (!state.options.slots) {
    throw ApiError(501, "/slots is switched off");
  }
  const Backend* backend = state.backend;
  const bool asks_for_room = ("&" + exchange->request.query + "&").find("&fail_on_no_slot=1&") != std::string::npos;
  backend->loop.ask([exchange, backend, asks_for_room](Engine& engine) {
    if (asks_for_room && engine.status().running >= backend->model.parallel) {
      return exchange->send(ApiError(503, "no slot is free").response());
    }
    Json slots = Json::array();
    for (const SequenceStatus& sequence : engine.sequences()) {
      slots.push_back({{"id", slots.size()},
                       {"id_task", sequence.id},
                       {"n_ctx", backend->model.context_length},
                       {"is_processing", sequence.state != SequenceStatus::State::waiting},
                       {"state", name(sequence.state)},
                       {"priority", sequence.priority},
                       {"n_prompt_tokens", sequence.prompt_tokens},
                       {"n_prompt_tokens_cached", sequence.cached_tokens},
                       {"n_computed", sequence.computed_tokens},
                       {"n_decoded", sequence.generated_tokens},
                       {"kv_blocks", sequence.kv_blocks},
                       {"age_seconds", sequence.age_seconds}});
    }
    while (slots.size() < static_cast<std::size_t>(backend->model.parallel)) {
      slots.push_back({{"id", slots.size()}, {"n_ctx", backend->model.context_length}, {"is_processing", false}});
    }
    exchange->send_json(slots);
  });
}

void serve_tokenize(const std::shared_ptr<Exchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  const Json& body = document.root;
  Fields fields(body);
  const Tokenizer& tokenizer = backend.model.text();
  const std::string content = fields.needed_text("content");
  const bool add_special = fields.boolean("add_special").value_or(false);
  const bool parse_special = fields.boolean("parse_special").value_or(true);
  const bool with_pieces = fields.boolean("with_pieces").value_or(false);
  finish_fields(fields, *exchange, backend);
  Ids ids = encode_text(*exchange, tokenizer, content, {.add_special = add_special, .parse_special = parse_special});
  exchange->keep(static_cast<std::int64_t>(ids.size() * sizeof(std::int32_t)));
  const auto held = std::make_shared<const Ids>(std::move(ids));
  TextPieces list = list_in_pieces(held->size(), [held, with_pieces, of = backend.model.tokenizer](std::size_t i) {
    const std::int32_t id = (*held)[i];
    return with_pieces ? to_text({{"id", id}, {"piece", piece_of(*of, id)}}) : fmt::format("{}", id);
  });
  exchange->send_pieces(with_member({{"tokens", nullptr}}, "tokens", std::move(list)));
}

void serve_detokenize(const std::shared_ptr<Exchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  const Json& body = document.root;
  Fields fields(body);
  const Json* tokens = fields.array("tokens");
  if (tokens == nullptr) {
    fields.fail("tokens", "is missing");
  }
  const auto ids = std::make_shared<const Ids>(read_prompt(fields, "tokens", *tokens, backend.model, *exchange));
  static_cast<void>(backend.model.text());
  finish_fields(fields, *exchange, backend);
  exchange->keep(static_cast<std::int64_t>(ids->size() * sizeof(std::int32_t)));
  exchange->send_pieces(with_member({{"content", nullptr}}, "content", text_in_pieces(ids, backend.model.tokenizer)));
}

}  // namespace rocmforge
