#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "memory/kv_group.h"
#include "models/model.h"
#include "models/parts/expert_matrix.h"
#include "models/parts/fused_linear.h"
#include "models/parts/head_matrix.h"
#include "models/parts/latent_prefill.h"
#include "models/parts/router.h"
#include "models/plan/operation_bytes.h"
#include "models/step/step_attention.h"
#include "ops/kernel_registry.h"
#include "weights/weight_store.h"

namespace rocmforge {

/// A table in the file's format, from which single rows are read.
struct WeightTable {
  Resolved<EmbeddingRows> operation;
  const GgufTensor* tensor = nullptr;
  const void* data = nullptr;  ///< [vocab, hidden] once weights are loaded
};

/// One linear layer of a group, by the name of its tensor without ".weight".
struct LinearName {
  std::string name;
  std::int64_t n = 0;
  bool needs_bias = false;  ///< a bias in the file is always used
  RowGroups groups{};       ///< of its rows; together they are n
  ColumnRange columns{};    ///< of the tensor, as many as the layer's input has elements
};

/// The kernels and weights of a model. First every tensor is looked up, checked and given a kernel, so that errors are
/// reported at once, and all memory is counted. Then `load_weights` copies the weights to the device, in the layout of
/// each kernel.
class ExecutionPlan {
 public:
  /// `file` and `registry` must outlive the plan. CPU kernels will run with `num_threads`.
  ExecutionPlan(const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device, int num_threads,
                const ModelOptions& options);

  /// Chooses the kernel of an operation without weights. Layers with the same operation share a line of the plan.
  template <class Op>
  Resolved<Op> resolve(const typename Op::Spec& spec, std::string_view forced = {}) {
    auto [resolved, planned] = choose<Op>(spec, forced);
    line(std::move(planned));
    return resolved;
  }
  /// As resolve(), for an operation that is not part of a decode step.
  template <class Op>
  Resolved<Op> resolve_for_prompts(const typename Op::Spec& spec) {
    auto [resolved, planned] = choose<Op>(spec);
    planned.times = 0;
    line(std::move(planned));
    return resolved;
  }
  /// As resolve(), for an operation that reads and writes `floats` floats for each token, which its spec does not contain.
  template <class Op>
  Resolved<Op> resolve_for_width(const typename Op::Spec& spec, std::int64_t floats) {
    auto [resolved, planned] = choose<Op>(spec);
    planned.activation_bytes = static_cast<std::size_t>(floats) * sizeof(float);
    line(std::move(planned));
    return resolved;
  }
  WeightTable* embedding(std::string_view name, std::int64_t vocab, std::int64_t hidden);
  /// Chooses kernels for both phases on one cache layout: see AttentionPair. The layer gets a plane in the group of its
  /// window. A window that is longer than the context is ignored. With `shared` the layer reads the plane of another layer
  /// with the same spec.
  StepAttention attention(const Attention::Spec& spec, const std::optional<KvPlace>& shared = {});
  /// The RopeAppend before `attention`. In steps of single rows it is part of the attention call if the kernel supports
  /// that.
  Resolved<RopeAppend> rope_append(const RopeAppend::Spec& spec, const StepAttention& attention);
  Linear linear(std::string_view operation, const std::vector<LinearName>& names, std::int64_t k);
  /// With a gate, the first half of the outputs is the gate and the second half is what it multiplies.
  FusedLinear fused_linear(std::string_view operation, const std::optional<NormName>& norm,
                           const std::vector<LinearName>& names, std::int64_t k,
                           const std::optional<GatedActivation::Spec>& gate = {});
  /// Fuses `sum` into `next`, the product that runs right after it and reads it, where the kernels of `next` can. Neither
  /// object may be moved afterwards.
  void join(ResidualSum& sum, FusedLinear& next);
  /// The router that chooses experts for rows [hidden].
  Router router(const RouterNames& names, const RouteTokens::Spec& choice, std::int64_t hidden);
  /// Whether the shared expert can be one of the stacked experts: same format, no bias or scale
  /// vectors.
  [[nodiscard]] bool can_stack_shared(const ExpertTensorName& name) const;
  /// The matrices of all experts for `names` ({gate, up}, {up} or {down}), with one kernel. Each may have a format of its
  /// own.
  std::vector<const ExpertMatrix*> experts(std::string_view operation, const std::vector<ExpertTensorName>& names,
                                           const ExpertMatmul::Spec& wanted);
  /// The matrices of all heads. The format in `spec` is ignored: it is the tensor's, or F32 for transposed matrices.
  const HeadMatrix* heads(const HeadTensorName& name, HeadMatmul::Spec spec);
  /// The decompressed form of latent attention for prompts. `absorbed` is the layer's attention in the absorbed form,
  /// planned last. None if the device has no kernels for it or another kernel is forced.
  std::optional<LatentPrefill> latent_prefill(const HeadMatrix& keys, const HeadMatrix& values,
                                              const StepAttention& absorbed);
  /// A norm of rows [dim], or [groups, dim], that is not fused into a product.
  Norm norm(const NormName& name, std::int64_t dim);

  /// A vector of weights [dim] that an operation reads beside its input; counted as read in every step.
  const WeightVector* vector(std::string_view name, std::int64_t dim) { return floats(name, {dim}); }
  /// As vector(), for a small tensor of any shape.
  const WeightVector* floats(std::string_view name, const Shape& shape);
  /// The value of an F32 tensor of one element. Throws Error naming a tensor whose value is not finite.
  float number(std::string_view name);
  /// Reserves `size_bytes` in each slot of state; returns the offset, for StateView::at.
  std::int64_t state(std::size_t size_bytes);
  /// Computed numbers in the device's memory. The owner of `values` must outlive the plan. Equal arrays share one copy.
  const WeightVector* constants(std::span<const float> values);

  /// Throws Error naming the tensor when it is missing, of another shape, or in a format that can't be computed.
  const GgufTensor& tensor(std::string_view name, const Shape& shape);
  /// Throws Error naming a tensor that changes the computation and is not supported, if the file has it.
  void refuse_tensor(const std::string& name) const;
  /// Everything planned from here on is not part of decode steps: only its memory counts.
  void leave_decode_steps() { decode_bytes_ = bytes_per_token_; }
  /// Prevents the warning about a tensor that the file may have and the model does not read.
  void pass_over(std::string name) { used_.insert(std::move(name)); }
  [[nodiscard]] bool has_tensor(std::string_view name) const { return file_->find_tensor(name) != nullptr; }
  /// Whether the file has a tensor with this name and shape.
  [[nodiscard]] bool has_tensor(std::string_view name, const Shape& shape) const;

  /// Uploads and repacks all weights and sets their addresses; then warns of unused tensors.
  void load_weights(Device& device, ThreadPool& pool);

  [[nodiscard]] const std::vector<PlannedOperation>& operations() const { return operations_; }
  [[nodiscard]] const DeviceInfo& device() const { return device_; }
  [[nodiscard]] DType kv_dtype() const { return options_.kv_dtype; }
  /// The layout and place of the last layer that planned attention.
  [[nodiscard]] const KvLayout& kv_layout() const { return kv_layout_; }
  [[nodiscard]] const KvPlace& kv_place() const { return kv_place_; }
  /// The pages of all layers, in blocks of one size.
  [[nodiscard]] KvGroups kv_groups() const;
  /// Bytes of copies of weights: on the CPU the repacked ones, on a GPU all.
  [[nodiscard]] std::size_t packed_bytes() const;
  [[nodiscard]] std::size_t scratch_bytes() const { return scratch_bytes_; }                  ///< the most any kernel needs
  [[nodiscard]] std::size_t slot_order_bytes() const { return slot_order_bytes_; }            ///< likewise, of experts
  [[nodiscard]] std::size_t attention_state_bytes() const { return attention_state_bytes_; }  ///< of each phase
  [[nodiscard]] std::size_t route_state_bytes() const { return route_state_bytes_; }          ///< the most of any router
  [[nodiscard]] std::int64_t joined_tokens() const { return joined_tokens_; }                 ///< the most of any sum
  [[nodiscard]] std::size_t bytes_per_token() const { return decode_bytes_.value_or(bytes_per_token_); }
  [[nodiscard]] std::size_t state_bytes() const { return state_bytes_; }  ///< of one slot

 private:
  /// The kernel of an operation and its line of the plan.
  template <class Op>
  std::pair<Resolved<Op>, PlannedOperation> choose(const typename Op::Spec& spec, std::string_view forced = {}) {
    auto described = describe<Op>(spec, registry_->choose<Op>(spec, device_, forced));
    if constexpr (std::is_base_of_v<OpKernel<Op>, typename KernelInterfaceOf<Op>::type>) {
      needs_scratch(described.first.kernel->workspace_bytes(spec, options_.max_batch_tokens));
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
    line(std::move(planned));
    return resolved;
  }
  /// The kernel that does the router's operations in one call, if this device has one for these weights.
  std::optional<Router::Rows> router_rows(const Router& router, const RouteTokens::Spec& choice);
  /// Linear layers and their line of the plan.
  std::pair<Linear, PlannedOperation> choose_linear(std::string_view operation, const std::vector<LinearName>& names,
                                                    std::int64_t k);
  void line(PlannedOperation operation);
  float weight_scale(std::string_view layer, DType type);
  const MatmulWeight* matmul_weight(const LinearName& layer, std::int64_t k, std::vector<Refusal>& refusals);
  ExpertMatrix find_experts(const ExpertTensorName& name, const ExpertMatmul::Spec& all);
  const GgufTensor& vector_tensor(std::string_view name, const Shape& shape);
  const WeightVector* find_vector(std::string_view name, const Shape& shape);
  const WeightVector* norm_weight(const NormName& name, std::int64_t dim);
  void find_expert_vectors(const ExpertTensorName& name, bool joined, ExpertMatrix& matrix);
  void check_scales(const GgufTensor& scales) const;
  KvPlace add_plane(std::int32_t window, const KvLayout& layout);
  void load_matrices(WeightStore& store, ThreadPool& pool, std::size_t total_bytes);
  const void* load_heads(const HeadMatrix& matrix, WeightStore& store, ExecutionContext& context) const;
  const void* load_experts(const ExpertMatrix& matrix, WeightStore& store, ExecutionContext& context) const;
  [[noreturn]] void refuse_scale(std::string_view layer) const;
  void refuse_unused_scales() const;
  void warn_of_unused() const;
  void needs_scratch(std::size_t size_bytes);

  const GgufFile* file_;
  const KernelRegistry* registry_;
  DeviceInfo device_;
  ModelOptions options_;
  AttentionLimits limits_;
  std::optional<WeightStore> store_;  ///< once weights are loaded
  // Deques, because the addresses of elements must not change.
  std::deque<MatmulWeight> matrices_;
  std::deque<ExpertMatrix> expert_matrices_;
  std::deque<HeadMatrix> head_matrices_;
  std::deque<WeightVector> vectors_;
  std::deque<std::vector<float>> computed_;  ///< values of vectors_ that no configuration owns
  std::deque<WeightTable> tables_;
  std::set<std::string, std::less<>> used_;
  std::vector<PlannedOperation> operations_;
  KvLayout kv_layout_;
  KvPlace kv_place_;
  KvGroups kv_groups_ = KvGroups(1);
  std::size_t scratch_bytes_ = 0;
  std::size_t slot_order_bytes_ = 0;
  std::size_t attention_state_bytes_ = 0;
  std::size_t route_state_bytes_ = 0;
  std::int64_t joined_tokens_ = 0;
  std::size_t bytes_per_token_ = 0;
  std::optional<std::size_t> decode_bytes_;  ///< bytes of a decode step, set once all its operations are planned
  std::size_t state_bytes_ = 0;
};

}  // namespace rocmforge
