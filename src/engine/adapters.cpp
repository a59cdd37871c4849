#include "engine/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"
#include "models/adapters/lora_file.h"
#include "weights/fingerprint.h"

namespace rocmforge {
namespace {

/// Where the last occurrence of an adapter's invocation tokens among the text of a prompt begins; 0 for an adapter without.
std::optional<std::int32_t> start_of(std::span<const std::int32_t> invocation, const Request& request) {
  if (invocation.empty()) {
    return 0;
  }
  const std::span<const std::int32_t> prompt = request.prompt;
  const auto count = static_cast<std::int32_t>(invocation.size());
  for (auto first = static_cast<std::int32_t>(prompt.size()) - count; first >= 0; --first) {
    const auto is_here = [&](const TokenSpan& image) { return image.first < first + count && first < image.end(); };
    if (std::ranges::equal(prompt.subspan(static_cast<std::size_t>(first), invocation.size()), invocation) &&
        std::ranges::none_of(request.spans, is_here)) {
      return first;
    }
  }
  return std::nullopt;
}

}  // namespace

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
  adapter.invocation_tokens = file->invocation_tokens();
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

void EngineAdapters::choose(Request& request) const {
  std::vector<AdapterScale> adapters;
  if (request.adapters) {
    adapters = *request.adapters;
  } else {
    std::ranges::transform(list_, std::back_inserter(adapters), [](const LoadedAdapter& adapter) {
      return AdapterScale{adapter.id, adapter.scale};
    });
  }
  std::erase_if(adapters, [&](AdapterScale& adapter) {
    if (adapter.scale == 0.0f) {
      return true;
    }
    const std::optional<std::int32_t> from = start_of(find(adapter.id)->invocation_tokens, request);
    adapter.from = from.value_or(0);
    return !from;
  });
  std::ranges::sort(adapters);
  request.adapters = std::move(adapters);
  request.adapter_marks = marks_of(request);
}

// Files' fingerprints, and not ids, so that a mark means the same when a conversation is restored by another process.
std::vector<TokenSpan> EngineAdapters::marks_of(const Request& request) const {
  std::vector<AdapterScale> late = *request.adapters;
  std::erase_if(late, [](const AdapterScale& adapter) { return adapter.from == 0; });
  std::ranges::stable_sort(late, {}, &AdapterScale::from);
  std::vector<TokenSpan> marks;
  std::vector<std::uint8_t> acting;
  for (const AdapterScale& adapter : late) {
    const std::string& fingerprint = find(adapter.id)->fingerprint;
    acting.insert(acting.end(), fingerprint.begin(), fingerprint.end());
    const auto scale = std::bit_cast<std::array<std::uint8_t, sizeof adapter.scale>>(adapter.scale);
    acting.insert(acting.end(), scale.begin(), scale.end());
    if (marks.empty() || marks.back().first != adapter.from) {
      marks.push_back({.first = adapter.from, .count = 1});
    }
    marks.back().content = sha256(acting);
  }
  return marks;
}

const LoadedAdapter* EngineAdapters::find(std::int32_t id) const {
  const auto found = std::ranges::find(list_, id, &LoadedAdapter::id);
  return found == list_.end() ? nullptr : &*found;
}

}  // namespace rocmforge
