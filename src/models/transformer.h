#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/model.h"
#include "models/parts/block.h"
#include "models/parts/mtp_block.h"
#include "models/parts/operation.h"
#include "models/parts/output_head.h"
#include "models/parts/per_layer_input.h"
#include "models/plan/execution_plan.h"
#include "models/step/step_draws.h"
#include "models/step/step_graphs.h"
#include "models/step/step_inputs.h"

namespace rocmforge {

/// Embedding, blocks, final norm, head and the draw: common to all architectures.
class Transformer final : public Model {
 public:
  Transformer(const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device, int num_threads,
              const ModelOptions& options);
  /// Waits until the device no longer uses the model's memory.
  ~Transformer() override;

  void load(Device& device, ThreadPool& pool) override;

  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] const KvGroups& kv_groups() const override { return kv_groups_; }
  [[nodiscard]] std::size_t state_bytes() const override { return plan_.state_bytes(); }
  [[nodiscard]] const std::vector<PlannedOperation>& plan() const override { return plan_.operations(); }
  [[nodiscard]] std::size_t packed_bytes() const override { return plan_.packed_bytes(); }
  [[nodiscard]] std::size_t workspace_bytes() const override;
  [[nodiscard]] std::size_t bytes_per_token() const override { return plan_.bytes_per_token(); }

  void forward(const BatchPlan& batch, SequenceMemory& memory) override;
  [[nodiscard]] std::int32_t mtp_blocks() const override { return static_cast<std::int32_t>(mtp_.size()); }
  void forward_mtp(std::int32_t block, const BatchPlan& batch, SequenceMemory& memory) override;
  [[nodiscard]] std::span<const std::int32_t> sampled() override { return draws_->newest(); }
  [[nodiscard]] std::span<const std::int32_t> previous_sampled() override { return draws_->previous(); }
  [[nodiscard]] bool runs_ahead() const override { return device_ != nullptr && device_->is_gpu(); }
  [[nodiscard]] std::span<const float> logits() override;
  [[nodiscard]] std::span<const float> raw_logits() override;
  [[nodiscard]] std::span<const float> hidden() override;
  void wait() override;
  [[nodiscard]] std::vector<OperationTime> time_operations(const BatchPlan& batch, SequenceMemory& memory) override;

 private:
  /// Offsets of a step's buffers, in bytes from the start of the workspace.
  struct WorkspaceLayout {
    std::size_t hidden, sums, normed, projected, gathered, per_layer, experts, expert_weights, route_state, slot_order,
        logits, scratch, sampled, attention_states[2], end;
  };
  [[nodiscard]] WorkspaceLayout lay_out_workspace() const;
  [[nodiscard]] StepInputs::Limits input_limits() const;

  void check_batch(const BatchPlan& batch, const SequenceMemory& memory) const;
  /// The operations of a step before its draw: the layers of the model, or one of its MTP blocks.
  struct Pass {
    const Operations* begin = nullptr;  ///< to Buffers::hidden
    std::span<const std::unique_ptr<Block>> blocks{};
    std::size_t kept_blocks = 0;  ///< blocks to compute in a step that wants only K, V and states
    const OutputHead* output = nullptr;
    bool recorded = false;  ///< decode steps are replayed as graphs
  };
  [[nodiscard]] Pass layers_pass() const { return {&embed_, blocks_, kept_blocks_, &*output_, options_.graphs}; }
  void run_step(const Pass& pass, const BatchPlan& batch, SequenceMemory& memory);
  void run_on_gpu(const Pass& pass, const BatchPlan& batch, SequenceMemory& memory);
  using RunOperations = std::function<void(const Operations&, const Step&)>;
  /// Passes a step's operations to `run` in their order, in groups with the Step that they run on.
  void compute(const Pass& pass, const StepArrays& arrays, SequenceMemory& memory, const RunOperations& run = run_all);
  /// Sets the K and V of the next block in `step`.
  static void find_pages(const KvPlace& place, const StepArrays& arrays, SequenceMemory& memory, Step& step);
  /// Checks that the table of learned positions has a row for each position.
  void plan_positions(const GgufFile& file);
  /// Plans the MTP blocks, if requested; throws Error if the file has none.
  void plan_mtp(const GgufFile& file);
  void add_operations();
  /// Gathers the rows of `step` whose logits are wanted into a Step of their own; with `mixed` also the mixer's output.
  [[nodiscard]] static Step wanted_rows(const Step& step, const OutputHead& output, bool mixed, const RunOperations& run);
  void keep_raw_logits(std::span<const std::int32_t> rows);
  /// Copies `count` floats of the workspace to host memory: waits.
  std::span<const float> read_back(const float* from, std::size_t count, PinnedBuffer& to);

  ModelConfig config_;
  ModelOptions options_;
  ExecutionPlan plan_;
  WeightTable* embedding_ = nullptr;
  WeightTable* positions_ = nullptr;  ///< [trained positions, hidden], or null
  std::optional<PerLayerEmbedding> per_layer_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::size_t kept_blocks_ = 0;  ///< Pass::kept_blocks
  std::optional<OutputHead> output_;
  std::vector<std::unique_ptr<MtpBlock>> mtp_;
  std::size_t layer_operations_ = 0;  ///< of the plan, before those of MTP blocks
  KvGroups kv_groups_;
  Resolved<SampleTokens> sample_;

  Operations embed_;
  Operations draw_;

  // Once loaded.
  Device* device_ = nullptr;
  ExecutionContext context_;
  DeviceBuffer workspace_;
  Buffers buffers_;
  std::optional<StepDraws> draws_;
  std::int32_t logit_rows_ = 0;  ///< of the last step
  std::int32_t hidden_rows_ = 0;
  std::int32_t raw_rows_ = 0;
  PinnedBuffer raw_logits_;  ///< [raw rows, vocab]
  // GPU only.
  std::optional<StepInputs> inputs_;
  std::optional<StepGraphs> graphs_;
  /// Addresses of the memory that the graphs use: pages of each group, and states.
  struct GraphsMemory {
    std::vector<const void*> pages;
    std::vector<std::int32_t> num_blocks;
    std::int32_t block_tokens = 0;
    const void* states = nullptr;
    friend bool operator==(const GraphsMemory&, const GraphsMemory&) = default;
  };
  static GraphsMemory graphs_memory(const SequenceMemory& memory);
  GraphsMemory graphs_memory_;
  PinnedBuffer logits_host_;
  PinnedBuffer hidden_host_;
  bool pending_ = false;  ///< the last step may still run
};

}  // namespace rocmforge
