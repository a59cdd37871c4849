#pragma once

#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/linear.h"
#include "models/model.h"
#include "ops/kernel_registry.h"
#include "weights/weight_store.h"

namespace rocmforge {

/// An operation with its kernel.
template <class Op>
struct Resolved {
  typename Op::Spec spec;
  const typename KernelInterfaceOf<Op>::type* kernel = nullptr;

  void run(const typename Op::Args& args, const Step& step) const { kernel->run(spec, args, *step.context); }
};

/// An RMSNorm with its weight.
struct Norm {
  Resolved<RmsNorm> operation;
  const float* weight = nullptr;  ///< [dim]

  void run(std::int64_t rows, const float* x, float* out, const Step& step) const {
    operation.run({x, rows, weight, out}, step);
  }
};

/// One linear layer of a group, by the name of its tensor without ".weight".
struct LinearName {
  std::string name;
  std::int64_t n = 0;
  bool needs_bias = false;  ///< a bias in the file is always used
};

/// The kernels and weights of a model. First every tensor is looked up, checked and given a kernel, so that whatever does
/// not fit is said at once; then `load_weights` repacks what its kernel wants repacked.
class ExecutionPlan {
 public:
  /// `file`, `registry` and `pool` must outlive the plan.
  ExecutionPlan(const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device, ThreadPool& pool,
                const ModelOptions& options);

  /// Chooses the kernel of an operation without weights. Layers that ask for the same share a line of the plan.
  template <class Op>
  Resolved<Op> resolve(const typename Op::Spec& spec, std::string_view forced = {}) {
    Choice<Op> choice = registry_->choose<Op>(spec, device_, forced);
    line(std::string(Op::name), to_string(spec), std::string(choice.kernel->name()), std::move(choice.refusals));
    return {spec, choice.kernel};
  }
  Resolved<EmbeddingRows> embedding(std::string_view name, std::int64_t vocab, std::int64_t hidden);
  Resolved<Attention> attention(const Attention::Spec& spec);
  Norm norm(std::string_view name, std::int64_t dim, float eps);
  Linear linear(std::string_view operation, const std::vector<LinearName>& names, std::int64_t k);

  /// A vector of weights [dim] that an operation reads beside its input; counts as read in every step.
  const float* vector(std::string_view name, std::int64_t dim);

  /// Throws Error naming the tensor when it is missing, of another shape, or in a format that can't be computed.
  const GgufTensor& tensor(std::string_view name, const Shape& shape);
  [[nodiscard]] bool has_tensor(std::string_view name) const { return file_->find_tensor(name) != nullptr; }

  /// Repacks; then warns of tensors nobody asked for.
  void load_weights();

  [[nodiscard]] const std::vector<PlannedOperation>& operations() const { return operations_; }
  [[nodiscard]] DType kv_dtype() const { return options_.kv_dtype; }
  [[nodiscard]] const KvLayout& kv_layout() const { return kv_layout_; }  ///< set by `attention`
  [[nodiscard]] std::size_t packed_bytes() const { return store_.owned_bytes(); }
  [[nodiscard]] std::size_t scratch_bytes() const { return scratch_bytes_; }  ///< the most any kernel needs
  [[nodiscard]] std::size_t bytes_per_token() const { return bytes_per_token_; }

 private:
  void line(std::string operation, std::string spec, std::string kernel, std::vector<Refusal> refusals,
            std::size_t weight_bytes = 0);
  const MatmulWeight* matmul_weight(const LinearName& layer, std::int64_t k, std::vector<Refusal>& refusals);
  void needs_scratch(std::size_t size_bytes);

  const GgufFile* file_;
  const KernelRegistry* registry_;
  DeviceInfo device_;
  ThreadPool* pool_;
  ModelOptions options_;
  WeightStore store_;
  std::deque<MatmulWeight> weights_;  ///< addresses stay
  std::set<std::string, std::less<>> used_;
  std::vector<PlannedOperation> operations_;
  KvLayout kv_layout_;
  std::size_t scratch_bytes_ = 0;
  std::size_t bytes_per_token_ = 0;
};

}  // namespace rocmforge
