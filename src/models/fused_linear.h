#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "models/layer_config.h"
#include "models/linear.h"
#include "ops/kernel_registry.h"

namespace rocmforge {

/// An operation with its kernel.
template <class Op>
struct Resolved {
  typename Op::Spec spec;
  const typename KernelInterfaceOf<Op>::type* kernel = nullptr;

  void run(const typename Op::Args& args, const Step& step) const { kernel->run(spec, args, *step.context); }
};

/// A norm by the name of its tensor without the suffix.
struct NormName {
  std::string name;
  NormKind kind = NormKind::rms;
  float eps = 1e-5f;
  bool needs_bias = false;              ///< a LayerNorm's; one in the file is always used
  std::string_view suffix = ".weight";  ///< of the tensor of its weights
  float factor = 1.0f;                  ///< of these
};

/// A norm of rows with its weights.
struct Norm {
  std::variant<Resolved<RmsNorm>, Resolved<LayerNorm>> operation;
  const WeightVector* weight = nullptr;  ///< [dim]
  const WeightVector* bias = nullptr;    ///< [dim] or null

  [[nodiscard]] std::string_view kind() const;
  void run(std::int64_t rows, const float* x, float* out, const Step& step) const;
  /// The same for an RMSNorm of rows that are `stride` elements apart, in place.
  void run_strided(std::int64_t rows, float* x, std::int64_t stride, const Step& step) const;
  /// Adds it to the operations of a part, which it outlives: from `x` to `out`, buffers of a step, maybe the same.
  void append(Operations& operations, float* Buffers::*x, float* Buffers::*out) const;
  /// The same for an RMSNorm: out = (residual + factor * norm(x)) * scale.
  void run_residual(std::int64_t rows, const float* x, const float* residual, float factor, float scale, float* out,
                    const Step& step) const;
  /// The same with `out` for the residual, as an operation.
  void append_residual(Operations& operations, float* Buffers::*x, float* Buffers::*out, float factor,
                       float scale = 1.0f) const;
};

/// A sum of the residual stream: hidden = (hidden + factor * norm(y)) * scale, of an RMSNorm of what a product gave. In
/// steps of up to `joined_tokens` tokens it is joined to the call of the product behind it. That one may not write what it
/// reads at different places: y is in Buffers::normed then, and the stream goes from Buffers::hidden to Buffers::sums, or
/// back.
struct ResidualSum {
  Norm norm;
  float factor = 1.0f;
  float scale = 1.0f;
  std::int64_t joined_tokens = 0;
  /// The layer's sum before this one; null for its first. The second is joined only where the first is: behind both the
  /// stream is in Buffers::hidden again.
  const ResidualSum* first = nullptr;

  [[nodiscard]] bool joined(const Step& step) const { return step.tokens <= joined_tokens; }
  /// Where the product before it leaves y.
  [[nodiscard]] float* input(const Step& step) const { return joined(step) ? step.buffers.normed : step.buffers.projected; }
  /// The stream before the sum, and behind it.
  [[nodiscard]] float* before(const Step& step) const;
  [[nodiscard]] float* after(const Step& step) const;
  /// For the product that takes it in.
  [[nodiscard]] MatmulPostNorm post_norm(const Step& step) const;
  /// The sum as an operation of its own, which does nothing in steps that join it. `this` outlives it.
  void append(Operations& operations) const;
};

/// Linear layers, with the norm of their input and the gated activation of their outputs where they have them. Both belong
/// to the call of the products where the kernel takes them with so many tokens and are operations of their own where it
/// doesn't.
struct FusedLinear {
  std::optional<Norm> norm;
  Linear linear;
  MatmulFusions fusions;                          ///< of the linear layers; 0 for what is not there
  const ResidualSum* sum = nullptr;               ///< of which their input comes, where they may take it in
  std::optional<Resolved<GatedActivation>> gate;  ///< the outputs are gate and up then

  /// Adds its operations: from `x` [tokens, k] to `out` [tokens, width of the layers], or [tokens, ffn] with a gate, both
  /// dense buffers of a step.
  void append(Operations& operations, float* Buffers::*x, float* Buffers::*out) const;
  /// The same for layers with an RMSNorm and no gate, where rows of `x` are `stride` elements apart. If the norm is an
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
