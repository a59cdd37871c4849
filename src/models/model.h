#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kv/kv_cache.h"
#include "models/model_config.h"
#include "ops/batch_plan.h"
#include "ops/kernel_registry.h"
#include "weights/gguf_file.h"

namespace rocmforge {

struct ModelOptions {
  DType kv_dtype = DType::f16;          ///< f32, f16 or bf16
  std::int32_t max_batch_tokens = 512;  ///< workspace is laid out for this many
  std::int32_t max_logit_rows = 64;     ///< rows of logits in one step (perplexity asks for max_batch_tokens)
  std::string matmul;                   ///< forced kernel names, "" = best
  std::string attention;
  std::function<void(double)> progress;  ///< called with 0..1 while weights are repacked
};

/// A line of the plan: which kernel serves an operation, why, and what it costs (bytes of weights one decode step reads).
struct PlannedOperation {
  std::string operation;  ///< "blk.0.attn_qkv"
  std::string spec;
  std::string kernel;
  std::vector<Refusal> refusals;
  std::size_t weight_bytes = 0;
};

/// A loaded model: weights ready for the chosen kernels. `forward` is one step of any mix of prefill and decode.
class Model {
 public:
  /// `file`, `registry` and `pool` must outlive the model. Throws Error naming the tensor or key that does not fit.
  static std::unique_ptr<Model> load(const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device,
                                     ThreadPool& pool, const ModelOptions& options = {});
  virtual ~Model() = default;

  [[nodiscard]] virtual const ModelConfig& config() const = 0;
  /// The layout the attention backend asked for; the engine makes the cache from it.
  [[nodiscard]] virtual KvLayout kv_layout() const = 0;
  [[nodiscard]] virtual const std::vector<PlannedOperation>& plan() const = 0;
  /// Bytes of repacked copies, of the workspace, and of weights one decode step reads.
  [[nodiscard]] virtual std::size_t packed_bytes() const = 0;
  [[nodiscard]] virtual std::size_t workspace_bytes() const = 0;
  [[nodiscard]] virtual std::size_t bytes_per_token() const = 0;

  /// Computes one step; K and V of its tokens are appended to `cache`. Returns logits [logit_rows, vocab], valid until the
  /// next call.
  virtual const float* forward(const BatchPlan& batch, KvCache& cache) = 0;
};

}  // namespace rocmforge
