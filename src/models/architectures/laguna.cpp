#include "models/config/architecture.h"
#include "models/config/expert_config.h"
#include "models/config/layer_windows.h"
#include "models/config/output_gates.h"
#include "models/config/rope_config.h"

namespace rocmforge {
namespace {

/// Laguna: heads of Q and K are normalised, and the softplus of gates multiplies the output of attention. In models with
/// windows the first of four layers has none; the others have a rotation of their own, without scaling, and other numbers of
/// heads. Experts are chosen by sigmoids with a bias, beside a shared one.
void configure_laguna(ModelConfig& config, MetadataReader& metadata) {
  constexpr std::int32_t period = 4;
  window_but_first_of_every(config, metadata, period);
  const std::int32_t n_rot = read_window_rotated(metadata, config.layer(0).attention.head_dim);
  const auto windowed = plain_frequencies(n_rot, read_window_rope_base(metadata, read_rope_base(metadata)));
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
    layer.attention.qk_norm = QkNorm::heads;
    if (layer.attention.window > 0) {
      layer.attention.rope.n_rot = n_rot;
      layer.attention.rope.frequencies = windowed;
    }
  }
  set_own_gates(config, metadata.file(), OutputGate::Gate::softplus);
  read_experts(config, metadata, {.score = RouteScore::sigmoid, .normalise = true});
}

}  // namespace

Architecture laguna_architecture() { return {"laguna", configure_laguna}; }

}  // namespace rocmforge
