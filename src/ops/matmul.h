#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ops/elementwise.h"
#include "ops/packed_product.h"
#include "ops/registry.h"
#include "tensor/tensor.h"

namespace rocmforge {

/// One linear layer of a group: y[t, n] = scale * sum_k x[t, k] * weight[n, k] (+ bias[n]).
struct MatmulOutput {
  DType dtype = DType::f32;      ///< format of the weight
  const void* weight = nullptr;  ///< what MatmulKernel::pack wrote, or the GGUF rows [n, k] when packed_bytes is 0
  std::int64_t n = 0;            ///< rows of the weight
  const float* bias = nullptr;   ///< [n] or null
  float* out = nullptr;          ///< [tokens, n], rows `stride` apart
  std::int64_t stride = 0;
  bool accumulate = false;  ///< out += y in place of out = y (the residual stream)
  float scale = 1.0f;       ///< of the whole weight; only NVFP4 has one
};

class MatmulKernel;

/// Up to how many tokens a kernel fuses the operations around a product into its call; 0: never. A limit above 0 is at least
/// the kernel's few_tokens(), so that all calls of few tokens round in the same way.
struct MatmulFusions {
  std::int64_t norm_tokens = 0;       ///< Args::norm_weight
  std::int64_t gate_tokens = 0;       ///< Args::gated
  std::int64_t post_norm_tokens = 0;  ///< Args::post_norm, with norm_weight or without it
};

/// The norm after an earlier product y, and its sum with the residual stream x. The product's input is
///   sum[t] = (x[t] + factor * y[t] / sqrt(mean(y[t]^2) + eps) * weight) * scale     (RmsNorm with a residual)
/// and the sum is also written to `out`. Work-groups read x and y at different times, so neither `out` nor an output of the
/// call may be x or y.
struct MatmulPostNorm {
  const float* y = nullptr;  ///< [tokens, k], rows `y_stride` apart
  std::int64_t y_stride = 0;
  const float* weight = nullptr;  ///< [k]
  float eps = 0.0f;
  float factor = 1.0f;
  float scale = 1.0f;
  float* out = nullptr;  ///< [tokens, k], rows `out_stride` apart
  std::int64_t out_stride = 0;
};

/// Linear layers that share one input (Q, K and V; gate and up) in a single call, each with a weight format of its own.
struct Matmul {
  static constexpr std::string_view name = "matmul";
  using KernelInterface = MatmulKernel;

  /// The kernel is chosen for each weight; a group may hold any weights for which the same kernel was chosen.
  struct Spec {
    DType weight = DType::f32;
    std::int64_t n = 0;
    std::int64_t k = 0;
  };

  struct Args {
    const float* x = nullptr;  ///< [tokens, k], rows `x_stride` apart
    std::int64_t tokens = 0;
    std::int64_t k = 0;
    std::int64_t x_stride = 0;
    std::span<const MatmulOutput> outputs;
    void* workspace = nullptr;  ///< at least workspace_bytes(tokens, k), 64-byte aligned

    // Operations that a kernel may fuse, see MatmulKernel::fusions.

    /// When set, the input is the sum that MatmulPostNorm describes in place of x, before norm_weight is applied.
    const MatmulPostNorm* post_norm = nullptr;
    /// [k] or null. When set, each row of x is replaced by x / sqrt(mean(x^2) + norm_eps) * norm_weight (RmsNorm).
    const float* norm_weight = nullptr;
    float norm_eps = 0.0f;
    /// The outputs are {gate, up}, equal in n. Only outputs[0].out[t, i] = activation(gate[t, i]) * up[t, i], biases
    /// included, is written (GatedActivation). outputs[1].out may be null; neither accumulates.
    bool gated = false;
    Activation activation = Activation::silu;
  };
};

std::string to_string(const Matmul::Spec& spec);

/// Every output element is summed in an order that depends only on k, not on the number of threads or the other weights of
/// the group; few_tokens says how it depends on the number of tokens. So a token's logits are the same bits whether it is
/// decoded alone or in a small batch.
class MatmulKernel : public PackedProduct<Matmul> {
 public:
  /// Scratch memory that a call with that many tokens needs (quantised activations).
  [[nodiscard]] virtual std::size_t workspace_bytes(std::int64_t tokens, std::int64_t k) const = 0;

  /// The fusions that a call may request; a call that requests more is refused (LogicError).
  [[nodiscard]] virtual MatmulFusions fusions() const { return {}; }

  /// Whether calls of one token that follow each other on a stream are one launch on this device, where the stream allows it
  /// (Stream::allow_merging).
  [[nodiscard]] virtual bool merges_launches(const DeviceInfo&) const { return false; }

  virtual void run(const Matmul::Args& args, ExecutionContext& context) const = 0;
};

}  // namespace rocmforge
