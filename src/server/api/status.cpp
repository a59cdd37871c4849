#include "server/api/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/slots.h"
#include "server/api/raw_prompts.h"
#include "server/api/sampling_fields.h"

namespace rocmforge {
namespace {

/// By the words of llama-server.
Json capabilities_of(const ServedModel& model) {
  Json names = Json::array({model.is_encoder ? "embedding" : "completion"});
  if (model.images || model.sounds) {
    names.push_back("multimodal");
  }
  return names;
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

Json describe_adapter(const ServedModel& model, const LoadedAdapter& adapter) {
  return {{"id", adapter.name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "rocmforge"},
          {"parent", model.id}};
}

void require_working(const ServerState& state) {
  if (const std::string failure = state.needed_backend().instance->loop().failure(); !failure.empty()) {
    throw ApiError(503, fmt::format("the engine has failed: {}", failure));
  }
}

}  // namespace

Json describe_model(const ServedModel& model) {
  return {{"id", model.id},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "rocmforge"},
          {"capabilities", capabilities_of(model)},
          {"meta", model.details}};
}

void serve_health(const std::shared_ptr<HttpExchange>& exchange, ServerState& state) {
  require_working(state);
  exchange->send_json(Json{{"status", "ok"}});
}

void serve_ready(const std::shared_ptr<HttpExchange>& exchange, ServerState& state) {
  require_working(state);
  if (state.draining) {
    throw ApiError(503, "the server is shutting down");
  }
  exchange->send_json(Json{{"status", "ready"}});
}

void serve_version(const std::shared_ptr<HttpExchange>& exchange, ServerState& state) {
  exchange->send_json(Json{{"version", state.options.version}});
}

void serve_metrics(const std::shared_ptr<HttpExchange>& exchange, ServerState& state) {
  exchange->send(HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                              .body = state.service->models.metrics().text()});
}

void serve_models(const std::shared_ptr<HttpExchange>& exchange, ServerState& state) {
  const Backend backend = state.needed_backend();
  Json models = Json::array({describe_model(backend.model)});
  for (const LoadedAdapter& adapter : backend.model.adapters->list()) {
    models.push_back(describe_adapter(backend.model, adapter));
  }
  exchange->send_json(Json{{"object", "list"}, {"data", std::move(models)}});
}

void serve_model(const std::shared_ptr<HttpExchange>& exchange, ServerState& state) {
  const Backend backend = state.needed_backend();
  const ServedModel& model = backend.model;
  const std::string id = decode_percent(exchange->request.path_part);
  if (id == model.id) {
    return exchange->send_json(describe_model(model));
  }
  const auto adapter = model.adapters->find(id);
  if (!adapter) {
    throw no_such_model(id);
  }
  exchange->send_json(describe_adapter(model, *adapter));
}

void serve_props(const std::shared_ptr<HttpExchange>& exchange, ServerState& state) {
  const Backend backend = state.needed_backend();
  const ServedModel& model = backend.model;
  Json params = sampling_json(model.sampling);
  params["n_predict"] = -1;
  exchange->send_json(Json{{"default_generation_settings", {{"n_ctx", model.context_length}, {"params", params}}},
                           {"total_slots", model.parallel},
                           {"model_alias", model.id},
                           {"model_path", model.path},
                           {"chat_template", model.tokenizer == nullptr ? "" : model.tokenizer->vocabulary().chat_template},
                           {"chat_template_caps", template_abilities(model)},
                           {"chat_template_kwargs", model.template_arguments},
                           {"media_marker", media_marker},
                           {"modalities", {{"vision", model.images.has_value()}, {"audio", model.sounds.has_value()}}},
                           {"build_info", fmt::format("b-rocmforge {}", state.options.version)}});
}

// The engine's thread answers, between two steps.
void serve_slots(const std::shared_ptr<HttpExchange>& exchange, ServerState& state) {
  if (!state.options.slots) {
    throw ApiError(501, "/slots is switched off");
  }
  const Backend backend = state.needed_backend();
  const bool asks_for_room = exchange->request.parameter("fail_on_no_slot") == "1";
  // The model is not held: the question ends with it.
  backend.instance->loop().ask(
      [exchange, parallel = backend.model.parallel, n_ctx = backend.model.context_length, asks_for_room](Engine& engine) {
        if (asks_for_room && engine.status().running >= parallel) {
          return exchange->send(ApiError(503, "no slot is free").response());
        }
        Json slots = Json::array();
        for (const SequenceStatus& sequence : engine.sequences()) {
          slots.push_back({{"id", slots.size()},
                           {"id_task", sequence.id},
                           {"n_ctx", n_ctx},
                           {"is_processing", sequence.phase != SequencePhase::waiting},
                           {"state", name(sequence.phase)},
                           {"priority", sequence.priority},
                           {"n_prompt_tokens", sequence.prompt_tokens},
                           {"n_prompt_tokens_cached", sequence.cached_tokens},
                           {"n_computed", sequence.computed_tokens},
                           {"n_decoded", sequence.generated_tokens},
                           {"kv_blocks", sequence.kv_blocks},
                           {"age_seconds", sequence.age_seconds}});
        }
        while (slots.size() < static_cast<std::size_t>(parallel)) {
          slots.push_back({{"id", slots.size()}, {"n_ctx", n_ctx}, {"is_processing", false}});
        }
        if (const EngineSlots* named = engine.slots(); named != nullptr) {
          for (std::int32_t id = 0; id < std::min(named->count(), parallel); ++id) {
            slots.at(static_cast<std::size_t>(id))["n_tokens_named"] = named->num_tokens(id);
          }
        }
        try {
          exchange->send_json(slots);
        } catch (const ServiceError& problem) {  // no memory
          exchange->send(ApiError(problem).response());
        }
      });
}

}  // namespace rocmforge
