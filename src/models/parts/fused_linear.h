#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "models/config/layer_config.h"
#include "models/parts/linear.h"
#include "ops/kernel_registry.h"

namespace rocmforge {

/// An operation with its kernel.
template <class Op>
struct Resolved {
  typename Op::Spec spec;
  const typename KernelInterfaceOf<Op>::type* kernel = nullptr;

  void run(const typename Op::Args& args, const Step& step) const { kernel->run(spec, args, *step.context); }
};

/// A norm, given by the name of its tensor without the suffix; "" for an RMSNorm without weights.
struct NormName {
  std::string name;
  NormKind kind = NormKind::rms;
  float eps = 1e-5f;
  bool needs_bias = false;              ///< a LayerNorm must have a bias; one in the file is always used
  std::string_view suffix = ".weight";  ///< of the tensor of its weights
  float factor = 1.0f;                  ///< of these
  std::int64_t groups = 1;              ///< of a LayerNorm: parts of a row, each with weights of its own
  Selection rows{};                     ///< of these groups, where the tensor has more
};

/// A norm of rows with its weights.
struct Norm {
  std::variant<Resolved<RmsNorm>, Resolved<LayerNorm>> operation;
  const WeightVector* weight = nullptr;  ///< [groups, dim]
  const WeightVector* bias = nullptr;    ///< likewise, or null

  [[nodiscard]] std::string_view kind() const;
  void run(std::int64_t rows, const float* x, float* out, const Step& step) const;
  /// As run(), for rows that are `stride` elements apart, in place.
  void run_strided(std::int64_t rows, float* x, std::int64_t stride, const Step& step) const;
  /// Adds the norm to `operations`, which the norm must outlive: from `x` to `out`, buffers of a step, maybe the same.
  void append(Operations& operations, float* Buffers::*x, float* Buffers::*out) const;
  /// For an RMSNorm: out = (residual + factor * norm(x)) * scale.
  void run_residual(std::int64_t rows, const float* x, const float* residual, float factor, float scale, float* out,
                    const Step& step) const;
  /// As run_residual(), as an operation with `out` as the residual.
  void append_residual(Operations& operations, float* Buffers::*x, float* Buffers::*out, float factor,
                       float scale = 1.0f) const;
};

/// A sum of the residual stream with the RMSNorm of a product's output y: hidden = (hidden + factor * norm(y)) * scale. In
/// steps of up to `joined_tokens` tokens it is part of the call of the next product. That call must not overwrite its
/// inputs, which work-groups read at different times. So y is in Buffers::normed then, and the stream goes from
/// Buffers::hidden to Buffers::sums, or back.
struct ResidualSum {
  Norm norm;
  float factor = 1.0f;
  float scale = 1.0f;
  std::int64_t joined_tokens = 0;
  /// The layer's first sum; null in the first sum itself. The second sum is joined only where the first is, so that after
  /// both the stream is in Buffers::hidden again.
  const ResidualSum* first = nullptr;

  [[nodiscard]] bool joined(const Step& step) const { return step.fuses(joined_tokens); }
  /// Where the previous product writes y.
  [[nodiscard]] float* input(const Step& step) const { return joined(step) ? step.buffers.normed : step.buffers.projected; }
  /// The residual stream before and after the sum.
  [[nodiscard]] float* before(const Step& step) const;
  [[nodiscard]] float* after(const Step& step) const;
  /// The arguments for the product that includes the sum.
  [[nodiscard]] MatmulPostNorm post_norm(const Step& step) const;
  /// Adds the sum as an operation of its own, which does nothing in steps that join it. `this` must outlive `operations`.
  void append(Operations& operations) const;
};

/// Limits of what goes into linear layers of one input, and of what comes out of them (tensors LAYER.input_min, input_max,
/// output_min and output_max).
struct LinearLimits {
  Resolved<Scale> operation;
  const WeightVector* least_in = nullptr;  ///< [k]
  const WeightVector* most_in = nullptr;
  const WeightVector* least_out = nullptr;  ///< [width]
  const WeightVector* most_out = nullptr;

  /// Change rows in place.
  void limit_input(const Step& step, float* x) const { limit(step, x, *least_in, *most_in); }
  void limit_output(const Step& step, float* out) const { limit(step, out, *least_out, *most_out); }

 private:
  void limit(const Step& step, float* x, const WeightVector& least, const WeightVector& most) const;
};

/// A limited SwiGLU, min(silu(g), L) * min(max(u, -L), L), as limits of the products g and u before a SwiGLU: silu is L at
/// one G > 0, rises beyond 0 and is not positive before it, so that min(silu(g), L) = silu(min(g, G)).
struct SwigluLimits {
  Resolved<Scale> operation;
  std::int64_t width = 0;
  const WeightVector* least = nullptr;  ///< [2 * width], of g and of u
  const WeightVector* most = nullptr;

  /// Change rows in place: [rows, 2 * width] of g and u side by side, or [rows, width] of each.
  void limit(const Step& step, float* gate_up, std::int64_t rows) const;
  void limit(const Step& step, float* gate, float* up, std::int64_t rows) const;
};

/// Linear layers, with an optional norm of their input and an optional gated activation of their outputs. Norm and
/// activation are part of the call of the products where the kernel fuses them for the number of tokens; otherwise they are
/// operations of their own.
struct FusedLinear {
  std::optional<Norm> norm;
  Linear linear;
  MatmulFusions fusions;                          ///< of the linear layers; 0 for a missing norm or gate
  std::optional<LinearLimits> limits;             ///< with them nothing is fused
  const ResidualSum* sum = nullptr;               ///< the sum that their input comes from, if it may be fused
  std::optional<Resolved<GatedActivation>> gate;  ///< when set, the outputs are gate and up
  std::optional<SwigluLimits> swiglu_limits;      ///< of gate and up; with them the gate is not fused
  std::optional<Resolved<CutRows>> cut;           ///< of the gate, likewise

  /// Adds its operations: from `x` [tokens, k] to `out` [tokens, width of the layers], or [tokens, ffn] with a gate, both
  /// dense buffers of a step.
  void append(Operations& operations, float* Buffers::*x, float* Buffers::*out) const;
  /// As append(), for layers with an RMSNorm and no gate, where rows of `x` are `stride` elements apart. If the norm is an
  /// operation of its own, it works in place.
  void append_strided(Operations& operations, float* Buffers::*x, std::int64_t stride, float* Buffers::*out) const;

 private:
  /// The norm, if it is fused into the products.
  [[nodiscard]] LinearFusion fused_norm(const Step& step) const;
  void normalise(const Step& step, float* Buffers::*x) const;
  void multiply(const Step& step, float* Buffers::*x, float* Buffers::*out) const;
  void activate(const Step& step, float* Buffers::*out) const;
};

}  // namespace rocmforge
