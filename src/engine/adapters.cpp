#include "engine/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>

#include "base/error.h"
#include "models/adapters/lora_file.h"
#include "weights/fingerprint.h"

namespace rocmforge {

const LoadedAdapter& EngineAdapters::load(const AdapterOptions& options) {
  LoadedAdapter adapter{.id = next_id_,
                        .name = options.name.empty() ? std::filesystem::path(options.path).stem().string() : options.name,
                        .path = options.path,
                        .named_scale = options.scale,
                        .scale = options.applies ? options.scale : 0.0f};
  if (list_.size() >= most) {
    throw Error(fmt::format("{}: {} adapters are loaded already", options.path, most));
  }
  if (std::ranges::any_of(list_, [&](const LoadedAdapter& other) { return other.name == adapter.name; })) {
    throw Error(fmt::format("{}: an adapter '{}' is loaded already", options.path, adapter.name));
  }
  if (!std::isfinite(options.scale)) {
    throw Error(fmt::format("{}: the adapter's scale is no finite number", options.path));
  }
  auto file = std::make_shared<const LoraFile>(GgufFile(options.path));
  adapter.task_name = file->file().string("adapter.lora.task_name", "");
  adapter.prompt_prefix = file->file().string("adapter.lora.prompt_prefix", "");
  adapter.fingerprint = fingerprint(file->file());
  list_.reserve(list_.size() + 1);
  unloaded_.reserve(most + list_.size() + unloaded_.size() + 1);  // so that unloading allocates nothing
  model_->load_adapter(next_id_, std::move(file));
  ++next_id_;
  return list_.emplace_back(std::move(adapter));
}

bool EngineAdapters::unload(std::int32_t id) {
  const auto found = std::ranges::find(list_, id, &LoadedAdapter::id);
  if (found == list_.end()) {
    return false;
  }
  list_.erase(found);
  unloaded_.push_back(id);
  return true;
}

bool EngineAdapters::set_scales(std::span<const AdapterScale> scales) {
  if (std::ranges::any_of(scales, [this](const AdapterScale& wanted) { return find(wanted.id) == nullptr; })) {
    return false;
  }
  for (LoadedAdapter& adapter : list_) {
    const auto wanted = std::ranges::find(scales, adapter.id, &AdapterScale::id);
    adapter.scale = wanted == scales.end() ? 0.0f : wanted->scale;
  }
  return true;
}

void EngineAdapters::free_unloaded(const IsUsed& is_used) {
  std::erase_if(unloaded_, [&](std::int32_t id) {
    if (is_used(id)) {
      return false;
    }
    model_->unload_adapter(id);
    return true;
  });
}

std::string EngineAdapters::refusal(const Request& request) const {
  if (!request.adapters) {
    return {};
  }
  if (request.adapters->size() > most) {
    return fmt::format("the request names {} adapters, at most {} may be", request.adapters->size(), most);
  }
  for (const AdapterScale& wanted : *request.adapters) {
    if (find(wanted.id) == nullptr) {
      return fmt::format("adapter {} is not loaded", wanted.id);
    }
    if (std::ranges::count(*request.adapters, wanted.id, &AdapterScale::id) > 1) {
      return fmt::format("adapter {} is named twice", wanted.id);
    }
    if (!std::isfinite(wanted.scale)) {
      return fmt::format("the scale of adapter {} is no finite number", wanted.id);
    }
  }
  return {};
}

std::vector<AdapterScale> EngineAdapters::of(const Request& request) const {
  std::vector<AdapterScale> adapters;
  if (request.adapters) {
    adapters = *request.adapters;
  } else {
    std::ranges::transform(list_, std::back_inserter(adapters), [](const LoadedAdapter& adapter) {
      return AdapterScale{adapter.id, adapter.scale};
    });
  }
  std::erase_if(adapters, [](const AdapterScale& adapter) { return adapter.scale == 0.0f; });
  std::ranges::sort(adapters);
  return adapters;
}

const LoadedAdapter* EngineAdapters::find(std::int32_t id) const {
  const auto found = std::ranges::find(list_, id, &LoadedAdapter::id);
  return found == list_.end() ? nullptr : &*found;
}

}  // namespace rocmforge
