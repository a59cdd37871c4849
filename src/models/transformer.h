#pragma once

#include <memory>
#include <vector>

#include "models/architecture.h"
#include "models/execution_plan.h"
#include "models/layer.h"
#include "models/model.h"

namespace rocmforge {

/// Embedding, layers, final norm and head: the frame that all architectures share.
class Transformer final : public Model {
 public:
  Transformer(const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device, ThreadPool& pool,
              const ModelOptions& options);

  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] KvLayout kv_layout() const override { return plan_.kv_layout(); }
  [[nodiscard]] const std::vector<PlannedOperation>& plan() const override { return plan_.operations(); }
  [[nodiscard]] std::size_t packed_bytes() const override { return plan_.packed_bytes(); }
  [[nodiscard]] std::size_t workspace_bytes() const override { return workspace_.size_bytes(); }
  [[nodiscard]] std::size_t bytes_per_token() const override { return plan_.bytes_per_token(); }
  const float* forward(const BatchPlan& batch, KvCache& cache) override;

 private:
  void lay_out_workspace();
  void check_batch(const BatchPlan& batch, const KvCache& cache) const;
  /// The wanted rows of the residual stream through the final norm and the head.
  const float* head(const Step& step, const std::vector<std::int32_t>& rows) const;

  ModelConfig config_;
  ModelOptions options_;
  ExecutionContext context_;
  ExecutionPlan plan_;
  Resolved<EmbeddingRows> embedding_;
  const void* embedding_table_ = nullptr;  ///< [vocab, hidden], the file's own rows
  std::vector<std::unique_ptr<Layer>> layers_;
  Norm output_norm_;
  Linear output_;
  HostMemory workspace_;
  Buffers buffers_;
};

}  // namespace rocmforge
