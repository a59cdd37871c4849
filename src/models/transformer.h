#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "models/parts/block.h"
#include "models/parts/draft_blocks.h"
#include "models/parts/encoder_output.h"
#include "models/parts/input_embedding.h"
#include "models/parts/mtp_block.h"
#include "models/parts/output_head.h"
#include "models/parts/token_draw.h"
#include "models/plan/model_plan.h"
#include "models/step/pass.h"
#include "models/step/rank.h"
#include "models/step/step_halves.h"
#include "models/step/step_link.h"
#include "models/step/step_results.h"

namespace rocmforge {

class Transformer;

/// The layers of a model that one of several devices has: see LayerPipeline. The first device has the embedding, too, the
/// last one the output and the MTP blocks.
struct Stage {
  std::int32_t first = 0;
  std::int32_t end = 0;                 ///< behind the last one
  const Transformer* before = nullptr;  ///< the stage before; its weights are of the same file
};

/// How the stages of a model hand rows and tokens on. All outlive the steps.
struct StageLinks {
  StepLink* rows_in = nullptr;    ///< from the stage before; null in the first one
  StepLink* rows_out = nullptr;   ///< to the stage behind; null in the last one
  StepLink* drawn_in = nullptr;   ///< the first stage: the tokens that the last one has drawn
  StepLink* drawn_out = nullptr;  ///< the last stage
  Model* last = nullptr;          ///< the first stage, where the host hands the tokens on: the last stage
};

/// Throws Error unless the file is of this architecture, and `takes` says so of each of its tensors' names.
void check_adapter(const LoraFile& file, const ModelConfig& config, const std::function<bool(std::string_view)>& takes);

/// Embedding, blocks, final norm, head and the draw: common to all architectures.
class Transformer final : public Model {
 public:
  /// With `stage` only its layers, which are not those of an encoder.
  Transformer(ModelConfig config, const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device,
              int num_threads, const ModelOptions& options, const std::optional<Stage>& stage = {});

  /// To be called once, before the first step of a stage.
  void connect(const StageLinks& links) { links_ = links; }
  /// Bytes of what a stage hands on in a step, and of the tokens that are drawn in one.
  [[nodiscard]] std::size_t handed_bytes() const;
  [[nodiscard]] std::size_t drawn_bytes() const;
  /// Gives all planes of K and V blocks of that many positions, as those of the other stages have.
  void set_block_tokens(std::int32_t block_tokens) { rocmforge::set_block_tokens(kv_groups_, block_tokens); }
  /// ModelPlan::halves_from, and the most rows of such a half.
  [[nodiscard]] std::int64_t halves_from() const { return plan_.halves_from; }
  [[nodiscard]] std::int64_t most_half_rows() const { return rocmforge::most_half_rows(options_.max_batch_tokens); }
  /// Whether a product of this model takes the adapter's pair for tensor `base`.
  [[nodiscard]] bool takes_adapter(std::string_view base) const;

  void load(const Devices& devices, ThreadPool& pool) override;

  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] const KvGroups& kv_groups() const override { return kv_groups_; }
  [[nodiscard]] std::size_t state_bytes() const override { return plan_.memory.state_bytes(Side::device); }
  [[nodiscard]] std::size_t host_state_bytes() const override { return plan_.memory.state_bytes(Side::host); }
  [[nodiscard]] const std::vector<PlannedOperation>& plan() const override { return plan_.report.operations(); }
  [[nodiscard]] std::size_t packed_bytes() const override { return plan_.packed_bytes(on_gpu_); }
  [[nodiscard]] std::size_t workspace_bytes() const override { return Rank::workspace_bytes(plan_, options_, on_gpu_); }
  [[nodiscard]] std::size_t bytes_per_token() const override { return plan_.report.bytes_per_token(); }
  [[nodiscard]] std::size_t device_weight_bytes() const override { return plan_.packed_bytes(true); }
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
  [[nodiscard]] std::int32_t mtp_blocks() const override {
    return draft_ != nullptr ? 1 : static_cast<std::int32_t>(mtp_.size());
  }
  void forward_mtp(std::int32_t block, const BatchPlan& batch, SequenceMemory& memory) override;
  [[nodiscard]] std::span<const std::int32_t> sampled() override;
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
  /// Whether the model begins, or ends, with these layers.
  [[nodiscard]] bool begins() const { return stage_.first == 0; }
  [[nodiscard]] bool ends() const { return stage_.end == config_.layers; }
  /// Throws Error where learned positions are fewer than those of the context.
  void check_context(const GgufFile& file) const;
  void plan_input(Planner& planner);
  /// The rows that a stage gets, and the groups of pages that all stages have in one order.
  void plan_stage();
  void plan_encoder_output(Planner& planner);
  /// What both sides of a split model need to hand rows to each other.
  void plan_crossings();
  void plan_blocks(Planner& planner);
  void plan_output(Planner& planner);
  /// Plans the MTP blocks, if requested; throws Error if the file has none.
  void plan_mtp(Planner& planner, const GgufFile& file);

  /// The tables that MTP blocks read, on the side of the output.
  EmbeddingTable* mtp_embedding(Planner& planner);

  /// Plans the blocks of ModelOptions::eagle or assistant, if there are any.
  void plan_draft(Planner& planner);
  void plan_assistant(Planner& planner, const AssistantFile& assistant);
  /// ModelPlan::halves_from, as the communicator sees it now.
  [[nodiscard]] std::int64_t choose_halves_from() const;

  [[nodiscard]] Pass layers_pass() const;
  [[nodiscard]] Pass mtp_pass(std::size_t block) const;
  /// `goes_on`: from its own states in place of what the model has computed.
  [[nodiscard]] Pass draft_pass(bool goes_on) const;
  [[nodiscard]] Rank& output_rank() { return options_.placement.output == Side::host ? *host_rank_ : *rank_; }
  /// `host`: the arrays for the host's part of a split model. `halves`: of a step that is computed in two.
  void compute(const Pass& pass, const StepArrays& arrays, const StepArrays* host, const StepHalves* halves,
               SequenceMemory& memory, const RunOperations& run);
  /// Cuts the step of `batch`, if it is to be computed in halves. Null if not.
  [[nodiscard]] StepHalves* cut(const Pass& pass, const BatchPlan& batch);
  void run_step(const Pass& pass, const BatchPlan& batch, SequenceMemory& memory, bool recorded);
  /// Keeps the tokens that the step of `batch` has drawn, and hands them to the first stage.
  void keep_draws(const BatchPlan& batch);
  /// Gives the tokens that the last step drew to the embedding, if its memory is not that of the output.
  void share_draws();
  /// The parts of Buffers that stages hand on behind so many layers, with the sizes of a step of so many tokens.
  [[nodiscard]] std::array<StepLink::Part, 4> handed(std::int64_t tokens, std::int32_t layers);
  /// Of a token's row in Buffers::features, as an EAGLE3 draft reads it; 0 where none of its layers is among the first
  /// `layers`.
  [[nodiscard]] std::int64_t feature_elements(std::int32_t layers) const;
  [[nodiscard]] std::int64_t per_layer_elements() const { return std::int64_t{config_.per_layer_width} * config_.layers; }

  ModelConfig config_;
  Stage stage_;  ///< all layers of a model on one device
  ModelOptions options_;
  StageLinks links_{};
  const KernelRegistry* registry_;
  bool on_gpu_;  ///< the planned device
  ModelPlan plan_;
  ModelParts parts_;
  std::optional<InputEmbedding> input_;         ///< of the first stage
  std::vector<std::unique_ptr<Block>> blocks_;  ///< of all layers; null where another stage has it
  std::size_t kept_blocks_ = 0;                 ///< Pass::kept_blocks
  std::optional<OutputHead> output_;            ///< none in an encoder; of the last stage, as the next two
  std::optional<TokenDraw> draw_;               ///< likewise
  std::optional<EncoderOutput> encoder_output_;
  std::vector<std::unique_ptr<MtpBlock>> mtp_;
  std::unique_ptr<DraftBlocks> draft_;  ///< in their place
  std::size_t layer_operations_ = 0;    ///< of the plan, before those of MTP blocks
  KvGroups kv_groups_;
  StepResults results_;
  StepHalves halves_;                       ///< of the last step that was cut
  const ModelConfig* computed_ = &config_;  ///< of the last step: the model's, or the draft's
  std::int32_t step_tokens_ = 0;            ///< of the model's last step
  bool draft_drew_ = false;                 ///< the newest draws are the draft's
  std::optional<Crossing> crossing_;        ///< where the model is split
  std::optional<Rank> host_rank_;           ///< likewise, once loaded
  std::optional<Rank> rank_;                ///< once loaded. Last, because it waits for steps that use the rest
};

}  // namespace rocmforge
