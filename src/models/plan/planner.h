#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "models/model.h"
#include "models/parts/fused_linear.h"
#include "models/parts/latent_prefill.h"
#include "models/parts/rank_sum.h"
#include "models/parts/router.h"
#include "models/plan/attention_pair.h"
#include "models/plan/model_plan.h"
#include "models/plan/operation_bytes.h"
#include "models/plan/share.h"
#include "models/step/step_attention.h"
#include "ops/kernel_registry.h"

namespace rocmforge {

/// One linear layer of a group, by the name of its tensor without ".weight".
struct LinearName {
  std::string name;
  std::int64_t n = 0;
  bool needs_bias = false;  ///< a bias in the file is always used
  Selection rows{};         ///< of the tensor; together they are n
  Selection columns{};      ///< of the tensor, as many as the layer's input has elements
  bool summed = false;      ///< each rank computes a part of a sum: see RankSum
  Shape shape{};            ///< of the tensor, where its rows have more dimensions than one (a convolution's)
  /// Above 1: the layer reads so many inputs side by side, and the tensor has first the columns of their elements 0, then
  /// those of elements 1, and so on.
  std::int64_t interleaved = 1;
  bool transposed = false;            ///< the tensor has the inputs as rows: F32, F16 or BF16
  std::vector<TensorPiece> pieces{};  ///< MatmulWeight::pieces
};

/// Attention with its kernels, and where the layer's K and V are.
struct PlannedAttention {
  StepAttention attention;
  KvPlace place;
  KvLayout layout;
};

/// Chooses the kernels of a model's parts on one device and returns them ready to run. What they need is written to a
/// ModelPlan: every tensor is looked up, checked and given a kernel, so that errors are reported at once and all memory is
/// counted before any weight is loaded. The planner is needed only until then.
class Planner {
 public:
  /// `plan` and `registry` must outlive the planner. CPU kernels will run with `num_threads`.
  Planner(ModelPlan& plan, const KernelRegistry& registry, const DeviceInfo& device, int num_threads,
          const ModelOptions& options);

  /// What is planned from here on is computed by this side. At first by the device.
  void use(Side side);
  [[nodiscard]] Side side() const { return side_; }
  /// Whether the routed experts of the layer that is planned are on the host beside it.
  [[nodiscard]] bool experts_apart() const { return experts_apart_; }
  /// Of a step.
  [[nodiscard]] std::int64_t most_tokens() const { return options_.max_batch_tokens; }
  void place_layer(const Placement::Layer& layer) {
    use(layer.side);
    experts_apart_ = layer.side == Side::device && layer.experts == Side::host;
  }

  /// What is planned from here on has weights of another file, and is no part of the model itself; null: the model's.
  void read(WeightTable* other) { other_ = other; }
  /// One of several places in a row.
  struct Place {
    std::int32_t index = 0;
    std::int32_t of = 0;
  };
  /// Where a draft reads the rows behind layer `index` (ModelOptions::eagle), if it does.
  [[nodiscard]] std::optional<Place> feature_behind(int index) const;

  /// Chooses the kernel of an operation without weights. Layers with the same operation share a line of the plan.
  template <class Op>
  Resolved<Op> resolve(const typename Op::Spec& spec, std::string_view forced = {}) {
    auto [resolved, planned] = choose<Op>(spec, forced);
    plan_->report.add(std::move(planned));
    return resolved;
  }
  /// As resolve(), for an operation that is not part of a decode step.
  template <class Op>
  Resolved<Op> resolve_for_prompts(const typename Op::Spec& spec) {
    auto [resolved, planned] = choose<Op>(spec);
    planned.times = 0;
    plan_->report.add(std::move(planned));
    return resolved;
  }
  /// As resolve(), for an operation that reads and writes `floats` floats for each token, which its spec does not contain.
  template <class Op>
  Resolved<Op> resolve_for_width(const typename Op::Spec& spec, std::int64_t floats) {
    auto [resolved, planned] = choose<Op>(spec);
    planned.activation_bytes = static_cast<std::size_t>(floats) * sizeof(float);
    plan_->report.add(std::move(planned));
    return resolved;
  }
  EmbeddingTable* embedding(std::string_view name, std::int64_t vocab, std::int64_t hidden);
  /// Chooses kernels for both phases on one cache layout: see AttentionPair. The layer gets a plane in the group of its
  /// window. A window or chunk that is longer than the context is ignored. With `shared` the layer reads the plane of
  /// another layer, whose keys and values are alike. Without `spans` its tokens see nothing behind them in steps of tokens
  /// that see each other, either.
  PlannedAttention attention(Attention::Spec spec, const std::optional<KvPlace>& shared = {}, bool spans = true);
  /// The RopeAppend before `attention`. In steps of single rows it is part of the attention call if the kernel supports
  /// that.
  Resolved<RopeAppend> rope_append(const RopeAppend::Spec& spec, const StepAttention& attention);
  /// Layers of an input of `k` elements.
  Linear linear(std::string_view operation, const std::vector<LinearName>& names, std::int64_t k);
  /// With a gate, the first half of the outputs is the gate and the second half is what it multiplies; both may be limited:
  /// SwigluLimits. Of the gate what is far above its mean may be kept: CutRows, with `cut` deviations.
  FusedLinear fused_linear(std::string_view operation, const std::optional<NormName>& norm,
                           const std::vector<LinearName>& names, std::int64_t k,
                           const std::optional<GatedActivation::Spec>& gate = {}, float swiglu_limit = 0.0f,
                           const std::optional<float>& cut = {});
  /// Those of a SwiGLU of `width` gates for each row, of which a token has `rows`.
  SwigluLimits swiglu_limits(std::int64_t width, float limit, std::int64_t rows = 1);
  /// The limits of layers of an input of `k` elements, if the file has any. Throws Error if those of their input differ.
  std::optional<LinearLimits> limits(const std::vector<LinearName>& names, std::int64_t k);
  /// Fuses `sum` into `next`, the product that runs right after it and reads it, where the kernels of `next` can. Neither
  /// object may be moved afterwards.
  void join(ResidualSum& sum, FusedLinear& next);
  /// The router that chooses experts for rows [hidden].
  ExpertRouter router(const RouterNames& names, const RouteTokens::Spec& choice, std::int64_t hidden);
  /// The matrices of all experts for `names` ({gate, up}, {up} or {down}), with one kernel. Each may have a format of its
  /// own. `activation`: ExpertMatrix::activation.
  std::vector<const ExpertMatrix*> experts(std::string_view operation, const std::vector<ExpertTensorName>& names,
                                           const ExpertMatmul::Spec& wanted,
                                           const std::optional<GatedActivation::Spec>& activation = {});
  /// The matrices of all heads. The format in `spec` is ignored: it is the tensor's, or F32 for transposed matrices.
  const HeadMatrix* heads(const HeadTensorName& name, HeadMatmul::Spec spec);
  /// The decompressed form of latent attention for prompts. `absorbed` is the layer's attention in the absorbed form. None
  /// if the device has no kernels for it or another kernel is forced.
  std::optional<LatentPrefill> latent_prefill(const HeadMatrix& keys, const HeadMatrix& values,
                                              const PlannedAttention& absorbed);
  /// A norm of rows [dim], or [groups, dim], that is not fused into a product.
  Norm norm(const NormName& name, std::int64_t dim);

  /// A vector of weights [dim] that an operation reads beside its input; counted as read in every step.
  const WeightVector* vector(std::string_view name, std::int64_t dim) { return floats(name, {dim}); }
  /// As vector(), for a small tensor of any shape, or these of its rows, which together have that shape.
  const WeightVector* floats(std::string_view name, const Shape& shape, const Selection& rows = {});

  /// As floats(), for several tensors, whose rows follow one another; those of each have the shape `each`.
  const WeightVector* joined_floats(std::span<const std::string> names, const Shape& each, const Selection& rows);

  /// What of a layer is planned: the part of one of several ranks, or everything.
  [[nodiscard]] const Share& share() const { return share_; }
  /// This rank's part of the heads, groups or channels of layer `index`, of which there is an equal number for each rank.
  /// Throws Error naming the layer, like the others.
  [[nodiscard]] Range own(int index, std::int64_t count, std::string_view what) const;
  /// As own(), of what several ranks may have too.
  [[nodiscard]] Range own_or_common(int index, std::int64_t count, std::string_view what) const;
  /// This rank's part of the `width` features between two products, of which the second one's weight is tensor `down`
  /// without
  /// ".weight": whole blocks of its columns.
  [[nodiscard]] Range own_features(std::int64_t width, const std::string& down) const;
  /// The sum over all ranks of rows [width] in Buffers::partial; only where there are several.
  RankSum rank_sum(std::int64_t width);

  [[nodiscard]] const WeightTable& weights() const { return other_ != nullptr ? *other_ : plan_->weights; }
  [[nodiscard]] WeightTable& weights() { return other_ != nullptr ? *other_ : plan_->weights_of(side_); }
  [[nodiscard]] BufferPlan& buffers() { return plan_->buffers_of(side_); }
  [[nodiscard]] MemoryPlan& memory() { return plan_->memory; }
  /// Reserves `size_bytes` in each slot of state on the side of the layer; see MemoryPlan.
  std::int64_t add_state(std::size_t size_bytes) { return memory().add_state(size_bytes, side_); }
  /// The device that computes what is planned.
  [[nodiscard]] const DeviceInfo& device() const { return side_ == Side::device ? device_ : host_device_; }
  [[nodiscard]] const KvTypes& kv_dtype() const { return options_.kv_dtype; }
  /// ModelOptions::control.
  [[nodiscard]] const ControlVectors* control() const { return other_ != nullptr ? nullptr : options_.control.get(); }
  /// ModelOptions::given_rows.
  [[nodiscard]] bool given_rows() const { return options_.given_rows; }

 private:
  /// The kernel of an operation and its line of the plan.
  template <class Op>
  std::pair<Resolved<Op>, PlannedOperation> choose(const typename Op::Spec& spec, std::string_view forced = {}) {
    auto described = describe<Op>(spec, registry_->choose<Op>(spec, device(), forced));
    if constexpr (std::is_base_of_v<OpKernel<Op>, typename KernelInterfaceOf<Op>::type>) {
      need_scratch(described.first.kernel->workspace_bytes(spec, options_.max_batch_tokens));
    }
    return described;
  }
  template <class Op>
  static std::pair<Resolved<Op>, PlannedOperation> describe(const typename Op::Spec& spec, Choice<Op> choice) {
    std::size_t kv_bytes = 0;
    KernelUse<Op> use{spec, choice.kernel};
    if constexpr (std::is_same_v<Op, Attention>) {
      kv_bytes = rocmforge::kv_bytes_per_position(spec);
      use.layout = choice.kernel->layout(spec);
    }
    return {{spec, choice.kernel},
            {.operation = std::string(Op::name),
             .spec = to_string(spec),
             .kernel = std::string(choice.kernel->name()),
             .refusals = std::move(choice.refusals),
             .activation_bytes = decode_bytes(spec),
             .kv_bytes_per_position = kv_bytes,
             .uses = {std::move(use)}}};
  }
  /// As resolve(); in steps of up to `tokens` tokens the operation is part of the call of `part_of`.
  template <class Op>
  Resolved<Op> resolve_part(const typename Op::Spec& spec, std::string_view part_of, std::int64_t tokens) {
    auto [resolved, planned] = choose<Op>(spec);
    if (tokens > 0) {
      planned.part_of = part_of;
      planned.part_tokens = tokens;
      planned.activation_bytes = 0;
    }
    plan_->report.add(std::move(planned));
    return resolved;
  }
  /// The kernel that does the router's operations in one call, if this device has one for these weights.
  std::optional<ExpertRouter::Rows> router_rows(const ExpertRouter& router, const RouteTokens::Spec& choice);
  /// Linear layers and their line of the plan.
  std::pair<Linear, PlannedOperation> choose_linear(std::string_view operation, const std::vector<LinearName>& names,
                                                    std::int64_t k);
  /// The layer without a kernel: its tensor, and the rows and columns that the layer's shard has.
  MatmulWeight find_weight(const LinearName& layer, std::int64_t k);
  Linear::Part with_bias(const MatmulWeight& weight, const LinearName& layer);
  const MatmulWeight* matmul_weight(const LinearName& layer, std::int64_t k, std::vector<Refusal>& refusals);
  ExpertMatrix find_experts(const ExpertTensorName& name, const ExpertMatmul::Spec& all);
  void find_expert_vectors(const ExpertTensorName& name, bool joined, ExpertMatrix& matrix);
  const WeightVector* norm_weight(const NormName& name, std::int64_t dim);
  [[nodiscard]] std::string place_of(int index) const;
  void need_scratch(std::size_t size_bytes) { buffers().need_bytes(BufferName::scratch, size_bytes); }
  void need_attention_state(std::size_t size_bytes);
  /// The kernels of steps that ModelOptions::spans and most_rows allow, on the cache of `pair`.
  void plan_further(StepAttention& attention, const Attention::Spec& spec, const AttentionPair& pair, bool spans);
  const AttentionBackend& plan_beside(const AttentionPair& pair, const Attention::Spec& spec);
  /// A kernel that is asked for by name, on the device that it is for.
  [[nodiscard]] std::string_view forced(const std::string& kernel) const {
    return side_ == Side::device ? std::string_view(kernel) : std::string_view();
  }

  ModelPlan* plan_;
  const KernelRegistry* registry_;
  DeviceInfo device_;
  DeviceInfo host_device_;
  Side side_ = Side::device;
  bool experts_apart_ = false;
  WeightTable* other_ = nullptr;
  ModelOptions options_;
  Share share_;
  AttentionLimits limits_;
};

}  // namespace rocmforge
