#include "server/api/adapter_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "server/api/api_error.h"

namespace rocmforge {

std::optional<LoadedAdapter> adapter_of_name(const ServedModel& model, std::string_view name) {
  if (model.adapters == nullptr || !model.adapters->had_any()) {
    return std::nullopt;
  }
  const std::size_t colon = name.rfind(':');
  const std::string_view behind = colon == std::string_view::npos ? name : name.substr(colon + 1);
  for (const std::string_view own : {name, behind}) {
    if (auto adapter = model.adapters->find(own)) {
      return adapter;
    }
  }
  const bool is_of_model = colon != std::string_view::npos && name.substr(0, colon) == model.id && behind != "latest";
  if (is_of_model || model.adapters->was_unloaded(behind)) {
    throw no_such_model(name);
  }
  return std::nullopt;
}

void read_adapters(Fields& fields, const ServedModel& model, Request& request) {
  if (const Json* list = fields.array("lora")) {
    request.adapters.emplace();
    if (list->size() > EngineAdapters::most) {
      fields.fail("lora", fmt::format("has {} entries, at most {}", list->size(), EngineAdapters::most));
    }
    const std::vector<LoadedAdapter> loaded =
        model.adapters == nullptr ? std::vector<LoadedAdapter>() : model.adapters->list();
    fields.each("lora", list, [&](Fields& entry) {
      const auto id =
          static_cast<std::int32_t>(entry.integer("id", 0, std::numeric_limits<std::int32_t>::max()).value_or(-1));
      if (std::ranges::find(loaded, id, &LoadedAdapter::id) == loaded.end()) {
        entry.fail("id", id < 0 ? "is missing" : fmt::format("is {}: no such adapter is loaded", id));
      }
      request.adapters->push_back({id, static_cast<float>(entry.number("scale", -1000.0, 1000.0).value_or(1.0))});
      entry.finish();
    });
  } else if (const auto adapter = adapter_of_name(model, fields.text("model").value_or(""))) {
    request.adapters = {{adapter->id, adapter->named_scale}};
  }
}

}  // namespace rocmforge
