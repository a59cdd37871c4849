#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ops/activation.h"
#include "ops/packed_product.h"
#include "ops/registry.h"
#include "tensor/dtype.h"

namespace rocmforge {

/// How the logits of a router become scores.
enum class RouteScore {
  softmax,         ///< over all experts
  sigmoid,         ///< of each logit by itself
  chosen_softmax,  ///< scores are the logits; weights are the softmax over the chosen logits
  chosen_sigmoid,  ///< scores are the logits; weights are the sigmoids of the chosen logits
};

/// Chooses the experts of each token and their weights:
///   p = score(logits);  s = p + bias
///   of `groups` equal runs of neighbouring experts those `groups_used` with the largest sum of their `group_best` largest s
///   remain
///   ids = the `used` experts with the largest s, best first; of equal ones the lower index, also among groups
///   weights = p[ids], divided by their sum when `normalise`, times `scale`
/// The bias affects only the choice. A NaN is chosen last; ids are valid whatever the logits are. Every token also uses the
/// shared experts: their ids `experts`, `experts` + 1 and so on follow the chosen ones, with
///   weights = shared_scale, or with gates sigmoid(the shared expert's logit) * shared_scale
struct RouteTokens {
  static constexpr std::string_view name = "route_tokens";

  struct Spec {
    std::int32_t experts = 0;
    std::int32_t used = 0;
    RouteScore score = RouteScore::softmax;
    bool bias = false;
    bool normalise = false;
    float scale = 1.0f;
    std::int32_t groups = 1;
    std::int32_t groups_used = 1;
    std::int32_t group_best = 2;  ///< 1 or 2; in a group of one expert, that expert's s alone
    std::int32_t shared = 0;
    bool shared_gates = false;  ///< a row of logits ends with one for each shared expert
    float shared_scale = 1.0f;

    /// Experts of a token, chosen and shared.
    [[nodiscard]] std::int32_t taken() const { return used + shared; }
    /// Logits of a token.
    [[nodiscard]] std::int32_t logits() const { return experts + (shared_gates ? shared : 0); }
  };

  struct Args {
    const float* logits = nullptr;  ///< [tokens, logits()]
    std::int64_t tokens = 0;
    const float* bias = nullptr;  ///< [experts], read when Spec::bias
    std::int32_t* ids = nullptr;  ///< [tokens, taken()]
    float* weights = nullptr;     ///< [tokens, taken()]
  };
};

class RouteRowsKernel;

/// The operations before the products of experts, in one call for few tokens, with a router in F32:
///   normed = x / sqrt(mean(x^2) + eps) * norm;  logits = router normed + router_bias;  ids and weights as RouteTokens
/// Only devices where a launch costs more than this work have kernels for it; elsewhere the three are separate operations.
struct RouteRows {
  static constexpr std::string_view name = "route_rows";
  using KernelInterface = RouteRowsKernel;

  struct Spec {
    RouteTokens::Spec route;
    std::int64_t hidden = 0;
    float eps = 1e-5f;
  };

  struct Args {
    const float* x = nullptr;             ///< [tokens, hidden], 16-byte aligned as the other rows
    const float* norm = nullptr;          ///< [hidden]
    const float* router = nullptr;        ///< [experts, hidden]
    const float* router_bias = nullptr;   ///< [experts], or null for none
    const float* shared_gates = nullptr;  ///< [shared, hidden], read when Spec::route.shared_gates
    std::int64_t tokens = 0;              ///< at most RouteRowsKernel::most_tokens()
    const float* bias = nullptr;          ///< [experts], read when Spec::route.bias
    float* normed = nullptr;              ///< [tokens, hidden]
    std::int32_t* ids = nullptr;          ///< [tokens, taken()]
    float* weights = nullptr;             ///< [tokens, taken()]
    void* workspace = nullptr;            ///< workspace_bytes(spec, tokens), 256-byte aligned
    void* state = nullptr;                ///< state_bytes(spec), zero at first, written only by this kernel's calls
  };
};

/// A token's result has the same bits whatever else is in the call.
class RouteRowsKernel : public OpKernel<RouteRows> {
 public:
  [[nodiscard]] virtual std::int64_t most_tokens() const = 0;
  /// Memory for counters whose values a call restores; 0 for none.
  [[nodiscard]] virtual std::size_t state_bytes(const RouteRows::Spec& /*spec*/) const { return 0; }
};

/// The lower bound of the sum by which weights are divided when they are normalised.
inline constexpr float least_route_sum = 1e-20f;

std::string to_string(const RouteTokens::Spec& spec);
std::string to_string(const RouteRows::Spec& spec);

/// One matrix of each expert, all in the same place of the feed-forward part.
struct ExpertWeight {
  DType dtype = DType::f32;
  const void* data = nullptr;  ///< what ExpertMatmulKernel::pack wrote, or rows [n, k] of the file where packed_bytes is 0
  std::int64_t n = 0;          ///< rows of one expert
  std::int64_t expert_bytes = 0;  ///< from one expert to the next
  const float* bias = nullptr;    ///< [n] of each expert, or null for none
  std::int64_t bias_stride = 0;   ///< elements from one expert's to the next
  const float* scale = nullptr;   ///< [experts], or null for 1
};

class ExpertMatmulKernel;

/// Products with the matrices of the experts that each token chose. A slot is one expert of one token, slot t * used + j the
/// j-th of token t. The weights are one of
///   {gate, up}  out[slot] = activation(gate_e x[token]) * (up_e x[token])
///   {up}, alone  out[slot] = activation(up_e x[token])
///   {down}      out[token] += sum over j, rising, of shares[token, j] * (down_e x[slot])
/// with e = ids[slot], where a product W_e x stands for scale_e * (W_e x) + bias_e. A clamped_swiglu is that of both
/// products of {gate, up}.
struct ExpertMatmul {
  static constexpr std::string_view name = "expert_matmul";
  using KernelInterface = ExpertMatmulKernel;

  /// The kernel is chosen for each weight; gate and up must have the same.
  struct Spec {
    DType weight = DType::f32;
    std::int64_t experts = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    std::int64_t used = 0;
    bool alone = false;  ///< up without a gate
  };

  struct Args {
    const float* x = nullptr;  ///< [tokens, k] for gate and up, [tokens * used, k] for {down}; dense
    std::int64_t tokens = 0;
    std::int64_t k = 0;
    std::int64_t used = 0;
    std::int64_t experts = 0;
    const std::int32_t* ids = nullptr;  ///< [tokens, used]
    std::int64_t shared = 0;  ///< the last slots of each token are shared experts, with the ids `experts` - `shared` and up
    std::span<const ExpertWeight> weights;
    const float* shares = nullptr;  ///< [tokens, used], for {down}
    float* out = nullptr;           ///< [tokens * used, n] for gate and up, [tokens, n] for {down}; dense, not x
    Activation activation = Activation::silu;
    bool alone = false;         ///< the one weight is up, which has no gate
    void* workspace = nullptr;  ///< at least workspace_bytes(spec, tokens) of each weight, 256-byte aligned
    void* order = nullptr;      ///< at least order_bytes(spec, tokens) of each weight, 256-byte aligned
    /// The kernel's last call with this `order`, where it had the same tokens, used, experts and ids: the kernel may reuse
    /// what it wrote there.
    struct Before {
      std::int64_t k = 0;  ///< 0: there is no such call
      DType weight = DType::f32;
      bool made_x = false;  ///< x is its `out`, as it left it
    };
    Before before{};

    /// Whether the slots of a token are summed; otherwise each slot has its own output.
    [[nodiscard]] bool down() const { return weights.size() == 1 && !alone; }
  };
};

std::string to_string(const ExpertMatmul::Spec& spec);

/// Sums depend on k alone, as those of MatmulKernel do: a token's result has the same bits whatever else is in the call.
class ExpertMatmulKernel : public PackedProduct<ExpertMatmul> {
 public:
  /// Whether gate and up may be of different formats.
  [[nodiscard]] virtual bool mixes_formats() const { return true; }

  /// Scratch memory that a call with this weight and that many tokens needs; none unless the kernel says otherwise.
  [[nodiscard]] virtual std::size_t workspace_bytes(const ExpertMatmul::Spec& /*spec*/, std::int64_t /*tokens*/) const {
    return 0;
  }

  /// Memory for the order of the slots of that many tokens, which the caller keeps unchanged from one call to the next.
  [[nodiscard]] virtual std::size_t order_bytes(const ExpertMatmul::Spec& /*spec*/, std::int64_t /*tokens*/) const {
    return 0;
  }

  virtual void run(const ExpertMatmul::Args& args, ExecutionContext& context) const = 0;
};

}  // namespace rocmforge
