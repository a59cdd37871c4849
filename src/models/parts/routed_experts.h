#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/parts/operation.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// A router and its experts: hidden += sum of weight_e * down_e (activation(gate_e x) * (up_e x)) over the experts e of a
/// token, or without gates of weight_e * down_e activation(up_e x). x = Buffers::normed, the output of the router's norm if
/// it has one. Experts may read and write rows of another size than the router's, or other rows. Where the experts lie on
/// the host beside a layer of the device, rows and choices cross to it and the sum comes back. Not moved once it has
/// returned operations.
class RoutedExperts {
 public:
  struct Config {
    RouteTokens::Spec route;
    std::int64_t width = 0;        ///< of one expert
    std::int64_t hidden = 0;       ///< of the router's rows
    std::int64_t expert_rows = 0;  ///< elements of the rows that experts read and write; 0: hidden
    Activation activation = Activation::silu;
    bool gated = true;
    bool stays = false;         ///< never on the host beside the layer
    float swiglu_limit = 0.0f;  ///< SwigluLimits; 0: none
    bool weighted = true;       ///< false: the sum is that of the experts' outputs, because their inputs were weighted
  };
  /// The tensors of a block without ".weight".
  struct Names {
    RouterNames router;
    ExpertTensorName gate;  ///< where there are gates
    ExpertTensorName up;
    ExpertTensorName down;
  };

  RoutedExperts(Planner& planner, const Config& config, const Names& names);

  /// `x`: what the router's norm reads; `out`: what the sum is added to.
  void append(Operations& operations, float* Buffers::*x, float* Buffers::*out = &Buffers::hidden) const;
  /// The same as separate parts, for callers with other operations between them, which must not write `slots` unless
  /// apart(): the choice; gate and up from `x` to `slots`; and down from `slots`, which adds to `out`.
  void append_router(Operations& operations, float* Buffers::*x) const { router_.append(operations, x); }
  void append_up(Operations& operations, float* Buffers::*x = &Buffers::normed,
                 float* Buffers::*slots = &Buffers::gathered) const;
  void append_down(Operations& operations, float* Buffers::*out, float* Buffers::*slots = &Buffers::gathered) const;
  /// Whether the experts are on the host beside the layer. The host computes in append_down, and during the operations
  /// between append_up and append_down only the device does.
  [[nodiscard]] bool apart() const { return add_.has_value(); }

 private:
  void plan_experts(Planner& planner, const Names& names);
  void plan_limited(Planner& planner, const Names& names, ExpertMatmul::Spec product);
  void plan_apart(Planner& planner, const Names& names);
  void append_to_host(Operations& operations, float* Buffers::*x) const;
  void append_on_host(Operations& operations) const;
  void append_from_host(Operations& operations, float* Buffers::*out, float* Buffers::*slots) const;
  [[nodiscard]] const float* shares(const Step& step) const {
    return ones_ != nullptr ? ones_->data : step.buffers.expert_weights;
  }
  /// The products of gate and up from `x` to a row of `slots` for each slot, and the activation.
  void activate(const Step& step, const float* x, float* slots) const;
  /// The products of down from rows of `slots`, added to `out`.
  void sum_slots(const Step& step, const float* slots, float* out) const;
  /// Whether adapters add to gate or up, whose products then stand apart from the activation.
  [[nodiscard]] bool are_changed(const Step& step) const;
  void multiply(const Step& step, std::span<const ExpertMatrix* const> matrices, std::int64_t k,
                const ExpertMatmul::Args::Before& before, const float* x, float* out) const;

  Config config_;
  ExpertRouter router_;
  std::string up_kind_;
  std::string down_kind_;
  std::vector<const ExpertMatrix*> gate_up_;
  std::vector<const ExpertMatrix*> down_;
  /// Gate and up are products without an activation, in Buffers::projected, and these follow.
  struct Limited {
    SwigluLimits limits;
    Resolved<GatedActivation> swiglu;
  };
  std::optional<Limited> limited_;            ///< where Config::swiglu_limit is not 0
  bool same_kernel_ = false;                  ///< of gate, up and down
  const WeightVector* ones_ = nullptr;        ///< [most tokens, used], in place of weights where not Config::weighted
  std::optional<Resolved<ResidualAdd>> add_;  ///< of what comes back from the host
};

/// This rank's part of the features of each expert, of which there are `width`, in the names of its tensors. Returns how
/// many it has.
std::int64_t take_features(const Planner& planner, std::int64_t width, RoutedExperts::Names& names);

/// Sets Buffers::partial to 0 for experts to add to.
struct ClearPartial {
  Resolved<ResidualAdd> operation;
  std::int64_t width = 0;

  /// `this` must outlive `operations`.
  void append(Operations& operations) const;
};

/// Asks for the buffers of the routed experts and the shared one, stacked or not.
void need_buffers(BufferPlan& buffers, const ExpertConfig& experts);

}  // namespace rocmforge
