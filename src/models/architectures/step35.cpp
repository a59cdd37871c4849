#include "models/config/architecture.h"
#include "models/config/expert_config.h"
#include "models/config/mtp_config.h"
#include "models/config/output_gates.h"
#include "models/config/rope_config.h"
#include "models/config/swiglu_config.h"

namespace rocmforge {
namespace {

/// Layers without a window turn half of what those with one do, which have a base of their own and no scaling.
void set_rotations(ModelConfig& config, MetadataReader& metadata) {
  const AttentionConfig& common = config.layer(0).attention;
  if (common.rope.n_rot % 4 != 0) {
    throw metadata.error("rope.dimension_count", "or the head length must be a multiple of 4, half of it is rotated");
  }
  const std::int32_t half = common.rope.n_rot / 2;
  const auto full = read_part_frequencies(metadata, config, half);
  const std::int32_t n_rot = read_window_rotated(metadata, common.head_dim);
  const auto windowed = plain_frequencies(n_rot, read_window_rope_base(metadata, read_rope_base(metadata)));
  for (LayerConfig& layer : config.blocks) {
    const bool has_window = layer.attention.window > 0;
    layer.attention.rope = {
        .kind = RopeKind::half, .n_rot = has_window ? n_rot : half, .frequencies = has_window ? windowed : full};
  }
}

/// Step 3.5 and 3.7: three of four layers have a window and other numbers of heads. Heads of Q and K are normalised, and the
/// sigmoid of a gate multiplies each head's output. Experts are chosen by sigmoids with a bias, beside a shared one; the
/// SwiGLUs of some layers are limited. The MTP blocks at the end are a chain, of which each reads the one before.
void configure_step35(ModelConfig& config, MetadataReader& metadata) {
  metadata.require("attention.sliding_window_pattern");
  separate_mtp_blocks(config, metadata);
  config.mtp_supported = false;
  set_rotations(config, metadata);
  for (LayerConfig& layer : config.blocks) {
    layer.attention.qk_norm = QkNorm::heads;
  }
  set_own_gates(config, metadata.file(), OutputGate::Gate::sigmoid);
  read_experts(config, metadata, {.score = RouteScore::sigmoid, .normalise = true});
  metadata.contains("moe_every_n_layers");  // the layers with a router say the same
  find_dense_layers(config, metadata.file());
  read_swiglu_limits(config, metadata);
}

}  // namespace

Architecture step35_architecture() { return {"step35", configure_step35}; }

}  // namespace rocmforge
