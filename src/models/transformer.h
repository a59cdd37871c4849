#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/model.h"
#include "models/parts/block.h"
#include "models/parts/encoder_output.h"
#include "models/parts/input_embedding.h"
#include "models/parts/mtp_block.h"
#include "models/parts/output_head.h"
#include "models/parts/token_draw.h"
#include "models/plan/model_plan.h"
#include "models/step/pass.h"
#include "models/step/rank.h"
#include "models/step/step_results.h"

namespace rocmforge {

/// Embedding, blocks, final norm, head and the draw: common to all architectures.
class Transformer final : public Model {
 public:
  Transformer(ModelConfig config, const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device,
              int num_threads, const ModelOptions& options);

  void load(const Devices& devices, ThreadPool& pool) override;

  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] const KvGroups& kv_groups() const override { return kv_groups_; }
  [[nodiscard]] std::size_t state_bytes() const override { return plan_.memory.state_bytes(Side::device); }
  [[nodiscard]] std::size_t host_state_bytes() const override { return plan_.memory.state_bytes(Side::host); }
  [[nodiscard]] const std::vector<PlannedOperation>& plan() const override { return plan_.report.operations(); }
  [[nodiscard]] std::size_t packed_bytes() const override { return plan_.weights.packed_bytes(on_gpu_); }
  [[nodiscard]] std::size_t workspace_bytes() const override { return Rank::workspace_bytes(plan_, options_, on_gpu_); }
  [[nodiscard]] std::size_t bytes_per_token() const override { return plan_.report.bytes_per_token(); }
  [[nodiscard]] std::size_t device_weight_bytes() const override { return plan_.weights.packed_bytes(true); }
  [[nodiscard]] std::size_t host_weight_bytes() const override {
    return plan_.host ? plan_.host->weights.packed_bytes(true) : 0;
  }
  [[nodiscard]] std::size_t host_workspace_bytes() const override {
    return plan_.host ? plan_.host->buffers.size_bytes() : 0;
  }
  [[nodiscard]] bool parts_on_host() const override { return plan_.host.has_value(); }
  [[nodiscard]] const ModelParts& parts() const override { return parts_; }

  void load_adapter(std::int32_t id, std::shared_ptr<const LoraFile> file) override;
  void unload_adapter(std::int32_t id) override;
  void forward(const BatchPlan& batch, SequenceMemory& memory) override;
  [[nodiscard]] std::int32_t mtp_blocks() const override { return static_cast<std::int32_t>(mtp_.size()); }
  void forward_mtp(std::int32_t block, const BatchPlan& batch, SequenceMemory& memory) override;
  [[nodiscard]] std::span<const std::int32_t> sampled() override { return output_rank().draws().newest(); }
  [[nodiscard]] std::span<const std::int32_t> previous_sampled() override { return output_rank().draws().previous(); }
  [[nodiscard]] std::span<const float> draw_probabilities() override { return output_rank().draws().probabilities(); }
  [[nodiscard]] bool runs_ahead() const override {
    // The host's part of a step needs the tokens that the one before it has drawn.
    return rank_ && rank_->on_gpu() && !host_rank_;
  }
  [[nodiscard]] std::span<const float> logits() override;
  [[nodiscard]] std::span<const float> raw_logits() override;
  [[nodiscard]] std::span<const float> hidden() override;
  void wait() override;
  [[nodiscard]] std::vector<OperationTime> time_operations(const BatchPlan& batch, SequenceMemory& memory) override;

 private:
  /// Throws Error where learned positions are fewer than those of the context.
  void plan_input(Planner& planner, const GgufFile& file);
  /// What both sides of a split model need to hand rows to each other.
  void plan_crossings();
  void plan_blocks(Planner& planner);
  void plan_output(Planner& planner);
  /// Plans the MTP blocks, if requested; throws Error if the file has none.
  void plan_mtp(Planner& planner, const GgufFile& file);

  /// The tables that MTP blocks read, on the side of the output.
  EmbeddingTable* mtp_embedding(Planner& planner);

  [[nodiscard]] Pass layers_pass() const;
  [[nodiscard]] Rank& output_rank() { return options_.placement.output == Side::host ? *host_rank_ : *rank_; }
  /// `host`: the arrays for the host's part of a split model.
  void compute(const Pass& pass, const StepArrays& arrays, const StepArrays* host, SequenceMemory& memory,
               const RunOperations& run);
  void run_step(const Pass& pass, const BatchPlan& batch, SequenceMemory& memory, bool recorded);
  /// Gives the tokens that the last step drew to the side of the embedding, if it is not that of the output.
  void share_draws();

  /// Throws Error unless the file is of this architecture and has only pairs for products of this model.
  void check_adapter(const LoraFile& file) const;

  ModelConfig config_;
  ModelOptions options_;
  const KernelRegistry* registry_;
  bool on_gpu_;  ///< the planned device
  ModelPlan plan_;
  ModelParts parts_;
  std::optional<InputEmbedding> input_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::size_t kept_blocks_ = 0;       ///< Pass::kept_blocks
  std::optional<OutputHead> output_;  ///< none in an encoder
  std::optional<TokenDraw> draw_;     ///< likewise
  std::optional<EncoderOutput> encoder_output_;
  std::vector<std::unique_ptr<MtpBlock>> mtp_;
  std::size_t layer_operations_ = 0;  ///< of the plan, before those of MTP blocks
  KvGroups kv_groups_;
  StepResults results_;
  std::optional<Crossing> crossing_;  ///< where the model is split
  std::optional<Rank> host_rank_;     ///< likewise, once loaded
  std::optional<Rank> rank_;          ///< once loaded. Last, because it waits for steps that use the rest
};

}  // namespace rocmforge
