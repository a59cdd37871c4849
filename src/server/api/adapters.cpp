#include "server/api/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "server/api/adapter_fields.h"
#include "server/api/api_error.h"

namespace rocmforge {
namespace {

/// Runs `change` on the engine's thread between two steps, tells the model's readers, and answers with what it returns.
void change_adapters(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend,
                     std::function<Json(Engine&)> change) {
  exchange->settle();
  // The model is not held: the question ends with it.
  backend.instance->loop().ask([exchange, change = std::move(change), adapters = backend.model.adapters](Engine& engine) {
    try {
      const Json answer = change(engine);
      adapters->set(engine.adapters());
      exchange->send_json(answer);
    } catch (const ApiError& error) {
      exchange->send(error.response());
    } catch (const ServiceError& problem) {
      exchange->send(ApiError(problem).response());
    } catch (const Error& error) {
      exchange->send(ApiError(400, error.what()).response());
    }
  });
}

/// The file that a client names, relative to the folder or as a whole path. Throws ApiError unless it lies below the folder.
std::string file_below(const std::string& folder, const std::string& path) {
  if (folder.empty()) {
    throw ApiError(403, "adapters are not loaded for clients: the server was started without --lora-folder");
  }
  std::error_code problem;
  const std::filesystem::path root = std::filesystem::canonical(folder, problem);
  const std::filesystem::path file = problem ? root : std::filesystem::canonical(root / path, problem);
  const auto [end_of_root, in_file] = std::mismatch(root.begin(), root.end(), file.begin(), file.end());
  if (problem || end_of_root != root.end() || !std::filesystem::is_regular_file(file, problem)) {
    throw ApiError(400, "there is no such file in the folder of adapters", "lora_path");
  }
  return file.string();
}

std::string needed_name(Fields& fields) {
  constexpr std::size_t longest = 128;
  std::string name = fields.needed_text("lora_name");
  if (name.empty() || name.size() > longest) {
    fields.fail("lora_name", fmt::format("must have 1 to {} bytes", longest));
  }
  return name;
}

}  // namespace

void serve_adapters(const std::shared_ptr<HttpExchange>& exchange, ServerState& state) {
  Json list = Json::array();
  const ServedModel& model = state.needed_backend().model;
  for (const LoadedAdapter& adapter : model.adapters->list()) {
    Json& entry = list.emplace_back(Json{{"id", adapter.id},
                                         {"name", adapter.name},
                                         {"path", adapter.path},
                                         {"scale", adapter.scale},
                                         {"task_name", adapter.task_name},
                                         {"prompt_prefix", adapter.prompt_prefix}});
    if (!adapter.invocation_tokens.empty()) {
      entry["alora_invocation_tokens"] = adapter.invocation_tokens;
      if (model.tokenizer != nullptr) {
        entry["alora_invocation_string"] = model.tokenizer->decode(adapter.invocation_tokens, /*special=*/true);
      }
    }
  }
  exchange->send_json(list);
}

void serve_adapter_scales(const std::shared_ptr<HttpExchange>& exchange, ServerState& state) {
  const Document document = exchange->take_json(true);
  if (!document.root.is_array() || document.root.size() > EngineAdapters::most) {
    throw ApiError(400,
                   fmt::format("the body must be an array of at most {} objects with id and scale", EngineAdapters::most));
  }
  std::vector<AdapterScale> scales;
  for (const Json& entry : document.root) {
    Fields fields(entry, fmt::format("[{}].", scales.size()));
    const auto id = fields.integer("id", 0, std::numeric_limits<std::int32_t>::max());
    const auto scale = fields.number("scale", -1000.0, 1000.0);
    if (!id || !scale) {
      fields.fail(id ? "scale" : "id", "is missing");
    }
    scales.push_back({static_cast<std::int32_t>(*id), static_cast<float>(*scale)});
  }
  change_adapters(exchange, state.needed_backend(), [scales](Engine& engine) {
    if (!engine.set_adapter_scales(scales)) {
      throw ApiError(404, "an id is that of no loaded adapter", "id");
    }
    return Json{{"success", true}};
  });
}

void serve_adapter_load(const std::shared_ptr<HttpExchange>& exchange, ServerState& state) {
  const Document document = exchange->take_json();
  Fields fields(document.root);
  const std::string name = needed_name(fields);
  const std::string file = file_below(state.options.adapter_folder, fields.needed_text("lora_path"));
  change_adapters(exchange, state.needed_backend(), [name, file](Engine& engine) {
    const std::int32_t id = engine.load_adapter({.path = file, .applies = false, .name = name});
    return Json{{"success", true}, {"id", id}, {"lora_name", name}};
  });
}

void serve_adapter_unload(const std::shared_ptr<HttpExchange>& exchange, ServerState& state) {
  const Document document = exchange->take_json();
  Fields fields(document.root);
  const std::string name = needed_name(fields);
  if (state.options.adapter_folder.empty()) {
    throw ApiError(403, "adapters are not unloaded for clients: the server was started without --lora-folder");
  }
  change_adapters(exchange, state.needed_backend(), [name](Engine& engine) {
    const auto& list = engine.adapters();
    const auto found = std::ranges::find(list, name, &LoadedAdapter::name);
    if (found == list.end()) {
      throw ApiError(404, fmt::format("no adapter '{}' is loaded", name), "lora_name");
    }
    engine.unload_adapter(found->id);
    return Json{{"success", true}, {"lora_name", name}};
  });
}

}  // namespace rocmforge
