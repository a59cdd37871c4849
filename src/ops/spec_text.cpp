#include <fmt/format.h>

#include <array>

#include "ops/kernel_registry.h"

namespace rocmforge {

namespace {
std::string_view name(RopeKind kind) {
  switch (kind) {
    case RopeKind::none:
      return "none";
    case RopeKind::adjacent:
      return "adjacent";
    case RopeKind::half:
      return "half";
  }
  return "?";
}

std::string_view name(RouteScore score) {
  switch (score) {
    case RouteScore::softmax:
      return "softmax";
    case RouteScore::sigmoid:
      return "sigmoid";
    case RouteScore::chosen_softmax:
      return "chosen_softmax";
    case RouteScore::chosen_sigmoid:
      return "chosen_sigmoid";
  }
  return "?";
}
}  // namespace

std::string to_string(const EmbeddingRows::Spec& spec) {
  return fmt::format("{} [{}, {}]", name(spec.table), spec.vocab, spec.hidden);
}

std::string to_string(const RmsNorm::Spec& spec) {
  return fmt::format("dim {} eps {:g}{}", spec.dim, spec.eps, spec.groups > 1 ? fmt::format(" groups {}", spec.groups) : "");
}

std::string to_string(const LayerNorm::Spec& spec) {
  return fmt::format("dim {} eps {:g}{}{}", spec.dim, spec.eps, spec.bias ? " bias" : "",
                     spec.groups > 1 ? fmt::format(" groups {}", spec.groups) : "");
}

std::string to_string(const CausalConv::Spec& spec) {
  return fmt::format("channels {} taps {}{}{}", spec.channels, spec.taps, spec.gates ? " gates" : "",
                     spec.silu ? " silu" : "");
}

std::string to_string(const SsmScan::Spec& spec) {
  return fmt::format("heads {} of {} state {} groups {}", spec.heads, spec.head_dim, spec.state_size, spec.groups);
}

std::string to_string(const SelectiveScan::Spec& spec) {
  return fmt::format("channels {} state {}", spec.channels, spec.state_size);
}

std::string to_string(const GatedDeltaNet::Spec& spec) {
  return fmt::format("heads {}:{} of {}:{}{}{}", spec.value_heads, spec.key_heads, spec.value_dim, spec.key_dim,
                     spec.tiled ? " tiled" : "", spec.decays_of_keys ? " decays of keys" : "") +
         (spec.decay_floor < 0.0f ? fmt::format(" down to e^{}", spec.decay_floor) : std::string());
}

std::string to_string(const OutputGate::Spec& spec) {
  constexpr std::array names{"sigmoid", "silu", "softplus", "plain"};
  return fmt::format("{} heads {} of {}{}{}", names.at(static_cast<std::size_t>(spec.gate)), spec.heads, spec.dim,
                     spec.of_heads ? " one gate each" : "", spec.norm ? fmt::format(" norm eps {:g}", spec.eps) : "");
}

std::string to_string(const Matmul::Spec& spec) { return fmt::format("{} [{}, {}]", name(spec.weight), spec.n, spec.k); }

std::string to_string(const GatedActivation::Spec& spec) {
  constexpr std::array names{"silu", "gelu_tanh", "clamped_swiglu", "relu_squared", "gelu", "gelu_quick", "none"};
  return fmt::format("{} width {}{}", names.at(static_cast<std::size_t>(spec.activation)), spec.width,
                     spec.gated ? "" : " without a gate");
}

std::string to_string(const RopeAppend::Spec& spec) {
  return fmt::format("{} heads {}:{} head_dim {} n_rot {}{}{}{} kv {} block {}", name(spec.kind), spec.q_heads,
                     spec.layout.kv_heads, spec.head_dim, spec.n_rot,
                     !spec.head_norm        ? ""
                     : spec.norm_after_turn ? " head_norm after"
                                            : " head_norm",
                     spec.value_norm ? " value_norm" : "", spec.append ? "" : " Q alone", name(spec.layout.dtype),
                     spec.layout.block_tokens) +
         (spec.temperature_scale != 0.0f ? fmt::format(" temperature {:g} from {}", spec.temperature_scale,
                                                       spec.temperature_length - spec.temperature_ahead)
                                         : "");
}

std::string name(const KvTypes& types) {
  const auto one = [](DType type, bool rotated) { return fmt::format("{}{}", name(type), rotated ? " rotated" : ""); };
  const std::string k = one(types.k, types.k_rotated);
  const std::string v = one(types.v, types.v_rotated);
  return k == v ? k : k + " and " + v;
}

std::string to_string(const Attention::Spec& spec) {
  std::string text =
      fmt::format("heads {}:{} head_dim {} kv {}", spec.q_heads, spec.kv_heads, spec.head_dim, name(spec.kv_dtype));
  if (spec.value_dim > 0) {
    text += fmt::format(" values {}", spec.value_dim);
  }
  if (spec.window > 0) {
    text += fmt::format(" {} {}", spec.chunked ? "chunks of" : "window", spec.window);
  }
  if (spec.soft_cap > 0) {
    text += fmt::format(" soft_cap {:g}", spec.soft_cap);
  }
  if (spec.io_dtype != DType::f32) {
    text += fmt::format(" io {}", name(spec.io_dtype));
  }
  text += spec.causal ? "" : " full";
  text += spec.spans ? " spans" : "";
  text += spec.mask ? " mask" : "";
  text += spec.sinks ? " sinks" : "";
  if (spec.most_rows > 1) {
    text += fmt::format(" rows<={}", spec.most_rows);
  }
  return text + (spec.has_single_rows() ? " decode" : "");
}

std::string to_string(const RouteTokens::Spec& spec) {
  std::string text = fmt::format("{} {} of {}", name(spec.score), spec.used, spec.experts);
  if (spec.groups > 1) {
    text += fmt::format(" in {} of {} groups{}", spec.groups_used, spec.groups, spec.group_best == 1 ? " by one" : "");
  }
  text += spec.bias ? " bias" : "";
  text += spec.normalise ? " normalised" : "";
  text += spec.scale != 1.0f ? fmt::format(" scale {:g}", spec.scale) : "";
  return spec.shared > 0 ? text + fmt::format(" and {} shared{}", spec.shared, spec.shared_gates ? " with gates" : "")
                         : text;
}

std::string to_string(const RouteRows::Spec& spec) {
  return fmt::format("{} of rows of {}", to_string(spec.route), spec.hidden);
}

std::string to_string(const ExpertMatmul::Spec& spec) {
  return fmt::format("{} [{}, {}, {}] {} used{}", name(spec.weight), spec.experts, spec.n, spec.k, spec.used,
                     spec.alone ? " without a gate" : "");
}

std::string to_string(const LatentAppend::Spec& spec) {
  return fmt::format("{} heads {} of {} n_rot {} latent {} kv {} block {}", name(spec.kind), spec.q_heads, spec.q_dim,
                     spec.n_rot, spec.layout.value_dim, name(spec.layout.dtype), spec.layout.block_tokens);
}

std::string to_string(const HeadMatmul::Spec& spec) {
  return fmt::format("{} [{}, {}, {}]{}", name(spec.weight), spec.heads, spec.n, spec.k,
                     spec.tail > 0 ? fmt::format(" tail {}", spec.tail) : "");
}

std::string to_string(const LatentExpand::Spec& spec) {
  return fmt::format("{} K of {} + {} from {}, {} V of {}, latent {} of {}", name(spec.out), spec.plain_dim, spec.n_rot(),
                     name(spec.key_weight), name(spec.value_weight), spec.value_dim, name(spec.layout.dtype), spec.rank());
}

std::string to_string(const CopyHeads::Spec& spec) { return fmt::format("{} of {}", spec.out_dim, spec.dim); }

std::string to_string(const SampleTokens::Spec& spec) { return fmt::format("vocab {}", spec.vocab); }

std::string to_string(const ResidualAdd::Spec&) { return "f32"; }
std::string to_string(const Scale::Spec&) { return "f32"; }
std::string to_string(const CausalMask::Spec&) { return "f32"; }
std::string to_string(const RowSoftmax::Spec&) { return "f32"; }
std::string to_string(const AllReduce::Spec& spec) { return fmt::format("{} ranks", spec.ranks); }
std::string to_string(const RankExchange::Spec& spec) { return fmt::format("{} ranks", spec.ranks); }
std::string to_string(const OverwriteRows::Spec& spec) { return fmt::format("dim {}", spec.dim); }
std::string to_string(const MixStreams::Spec& spec) {
  const std::string_view inputs = spec.inputs == MixStreams::Inputs::streams   ? ""
                                  : spec.inputs == MixStreams::Inputs::and_row ? " and a row"
                                                                               : " matched";
  return fmt::format("{} of {}{}", MixStreams::streams, spec.dim, inputs);
}
std::string to_string(const CutRows::Spec& spec) {
  return fmt::format("{} from {} deviations on", spec.width, spec.deviations);
}
std::string to_string(const GatherRows::Spec& spec) { return fmt::format("dim {}", spec.dim); }
std::string to_string(const Dequantize::Spec& spec) { return std::string(name(spec.dtype)); }

std::string to_string(const QueryKey::Spec& spec) {
  return fmt::format("head_dim {} {}", spec.head_dim, name(spec.q_dtype));
}

std::string to_string(const WeightsValue::Spec& spec) {
  return fmt::format("head_dim {} {}", spec.head_dim, name(spec.out_dtype));
}

std::string to_string(const ReplicateKv::Spec& spec) {
  const KvLayout& layout = spec.layout;
  return fmt::format("heads {}:{} head_dim {} {}", spec.q_heads, layout.kv_heads, layout.head_dim, name(layout.dtype));
}

std::string to_string(const DequantizeRmsNorm::Spec& spec) {
  return fmt::format("{} dim {} eps {:g}", name(spec.dtype), spec.dim, spec.eps);
}

}  // namespace rocmforge
