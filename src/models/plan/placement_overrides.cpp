#include "models/plan/placement_overrides.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <regex>
#include <string_view>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "weights/gguf_value.h"

namespace rocmforge {
namespace {

/// GGUF allows 64 characters. The expressions of the library use the stack for each character.
constexpr std::size_t longest_name = 256;

struct Override {
  std::string text;
  std::regex expression;
  Side side;
  bool used = false;
};

Side side_of(const std::string& text, std::string name) {
  name = ascii_lower(std::move(name));
  if (name == "cpu") {
    return Side::host;
  }
  for (const std::string_view gpu : {"gpu", "cuda", "hip", "rocm"}) {
    if (name.starts_with(gpu)) {
      return Side::device;
    }
  }
  throw Error(fmt::format("--override-tensor {}: device '{}' is not cpu, gpu, cuda or hip", text, name));
}

Override parse(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(fmt::format("--override-tensor {}: must be REGEX=DEVICE", text));
  }
  const Side side = side_of(text, text.substr(equals + 1));
  try {
    return {text, std::regex(text.substr(0, equals), std::regex::ECMAScript | std::regex::optimize), side};
  } catch (const std::regex_error& error) {
    throw Error(fmt::format("--override-tensor {}: {}", text, error.what()));
  }
}

/// A part, in the order of a model: -1 the embedding, a layer's index, and behind the layers the output.
struct PartOf {
  std::int32_t index;
  bool experts;
  friend auto operator<=>(const PartOf&, const PartOf&) = default;
};

bool is_of_experts(std::string_view name) {
  if (name.find("_exps.") != std::string_view::npos) {
    return true;
  }
  for (const std::string_view one : {".ffn_gate.", ".ffn_up.", ".ffn_down."}) {  // a tensor for each expert
    const std::size_t at = name.find(one);
    if (at != std::string_view::npos && name.size() > at + one.size() && name[at + one.size()] >= '0' &&
        name[at + one.size()] <= '9') {
      return true;
    }
  }
  return false;
}

std::optional<PartOf> part_of(std::string_view name, std::int32_t layers) {
  constexpr std::string_view block = "blk.";
  if (name.starts_with("rope_")) {
    return std::nullopt;  // of the configuration
  }
  if (!name.starts_with(block)) {
    return PartOf{name.starts_with("output") ? layers : -1, false};
  }
  std::int32_t index = -1;
  const auto [end, problem] = std::from_chars(name.data() + block.size(), name.data() + name.size(), index);
  if (problem != std::errc() || index < 0 || index >= layers) {
    return std::nullopt;  // of an MTP block
  }
  return PartOf{index, is_of_experts(name)};
}

void set(PlacementWishes& wishes, const PartOf& part, std::int32_t layers, Side side) {
  if (part.index < 0) {
    wishes.embedding = side;
  } else if (part.index == layers) {
    wishes.output = side;
  } else {
    wishes.layers.resize(static_cast<std::size_t>(layers));
    PlacementWishes::Layer& layer = wishes.layers[static_cast<std::size_t>(part.index)];
    (part.experts ? layer.experts : layer.side) = side;
  }
}

}  // namespace

void add_overrides(const GgufFile& file, std::int32_t layers, const std::vector<std::string>& overrides,
                   PlacementWishes& wishes) {
  std::vector<Override> parsed;
  std::ranges::transform(overrides, std::back_inserter(parsed), parse);
  struct Found {
    std::string_view tensor;
    std::optional<Side> side;
  };
  std::map<PartOf, Found> parts;
  for (const GgufTensor& tensor : file.tensors()) {
    const std::optional<PartOf> part = part_of(tensor.name, layers);
    if (!part || tensor.name.size() > longest_name) {
      continue;
    }
    const auto matching =
        std::ranges::find_if(parsed, [&](const Override& each) { return std::regex_search(tensor.name, each.expression); });
    std::optional<Side> side;
    if (matching != parsed.end()) {
      matching->used = true;
      side = matching->side;
    }
    const auto [known, added] = parts.try_emplace(*part, Found{tensor.name, side});
    if (!added && known->second.side != side) {
      throw Error(fmt::format("{}: --override-tensor places {} and {} apart, which are computed on one device",
                              file.path().string(), quote(std::string(known->second.tensor)), quote(tensor.name)));
    }
  }
  for (const Override& each : parsed) {
    if (!each.used) {
      throw Error(fmt::format("{}: --override-tensor {} matches no tensor", file.path().string(), each.text));
    }
  }
  for (const auto& [part, found] : parts) {
    if (found.side) {
      set(wishes, part, layers, *found.side);
    }
  }
}

}  // namespace rocmforge
