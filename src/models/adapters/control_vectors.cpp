#include "models/adapters/control_vectors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/sha256.h"
#include "weights/gguf_file.h"
#include "weights/gguf_value.h"

namespace rocmforge {
namespace {

constexpr std::string_view start_of_direction = "direction.";

/// The layer in the name of a tensor.
std::optional<std::int32_t> layer_of(std::string_view name) {
  if (!name.starts_with(start_of_direction)) {
    return std::nullopt;
  }
  name.remove_prefix(start_of_direction.size());
  std::int32_t layer = 0;
  const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), layer);
  return problem == std::errc() && end == name.data() + name.size() ? std::optional(layer) : std::nullopt;
}

}  // namespace

ControlVectors::ControlVectors(std::span<const ControlVectorFile> files, const ControlLayers& layers,
                               const ModelConfig& config, std::int32_t most_rows)
    : directions_(static_cast<std::size_t>(config.layers)),
      rows_(static_cast<std::size_t>(most_rows)),
      zeros_(static_cast<std::size_t>(most_rows), 0) {
  std::iota(rows_.begin(), rows_.end(), 0);
  ControlLayers chosen = layers;
  chosen.last = layers.last == 0 ? config.layers - 1 : layers.last;
  if (chosen.first < 1 || chosen.last < chosen.first || chosen.last >= config.layers) {
    throw Error(fmt::format("control vectors are to change layers {} to {}, of this model they may change 1 to {}",
                            chosen.first, chosen.last, config.layers - 1));
  }
  if (config.residual_streams > 1) {
    throw Error(fmt::format("control vectors: {} models have {} residual streams, to which none can be added",
                            config.architecture, config.residual_streams));
  }
  for (const ControlVectorFile& file : files) {
    add(file, chosen, config);
  }
}

void ControlVectors::add(const ControlVectorFile& vector, const ControlLayers& layers, const ModelConfig& config) {
  const GgufFile file(vector.path);
  if (const std::string kind = file.string("general.architecture", ""); kind != "controlvector") {
    throw Error(fmt::format("{}: no control vector: key 'general.architecture' is {}, not 'controlvector'", vector.path,
                            quote(kind)));
  }
  if (file.tensors().empty()) {
    throw Error(fmt::format("{}: a control vector without directions", vector.path));
  }
  if (!std::isfinite(vector.scale)) {
    throw Error(fmt::format("{}: the control vector's scale is no finite number", vector.path));
  }
  for (const GgufTensor& tensor : file.tensors()) {
    const auto fail = [&](const std::string& reason) {
      throw Error(fmt::format("{}: tensor {} {}", vector.path, quote(tensor.name), reason));
    };
    const std::optional<std::int32_t> layer = layer_of(tensor.name);
    if (!layer) {
      fail("is no direction of a control vector");
    }
    if (*layer < 1 || *layer >= config.layers) {
      fail(fmt::format("is for no layer of this model: its directions are 1 to {}", config.layers - 1));
    }
    if (tensor.tensor.dtype != DType::f32 || tensor.tensor.shape.squeezed() != Shape{config.hidden}) {
      fail(fmt::format("has type {} and shape {}, the model needs F32 {}", name(tensor.tensor.dtype),
                       tensor.tensor.shape.to_string(), Shape{config.hidden}.to_string()));
    }
    std::vector<float> values(static_cast<std::size_t>(config.hidden));
    std::memcpy(values.data(), tensor.tensor.data, values.size() * sizeof(float));
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) {
      fail("has numbers that are not finite");
    }
    if (*layer < layers.first || *layer > layers.last) {
      continue;
    }
    std::vector<float>& sum = directions_[static_cast<std::size_t>(*layer)];
    sum.resize(values.size(), 0.0f);
    std::ranges::transform(sum, values, sum.begin(),
                           [&](float before, float value) { return before + vector.scale * value; });
  }
}

std::span<const float> ControlVectors::behind(int layer) const {
  const auto index = static_cast<std::size_t>(layer);
  return index < directions_.size() ? std::span<const float>(directions_[index]) : std::span<const float>();
}

std::string ControlVectors::fingerprint() const {
  std::vector<float> all;
  for (std::size_t layer = 0; layer < directions_.size(); ++layer) {
    all.push_back(directions_[layer].empty() ? 0.0f : static_cast<float>(layer));
    all.insert(all.end(), directions_[layer].begin(), directions_[layer].end());
  }
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(all.data()), all.size() * sizeof(float));
  return fmt::format("{:08x}", fmt::join(sha256(bytes), ""));
}

}  // namespace rocmforge
