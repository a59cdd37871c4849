#pragma once

#include <memory>
#include <vector>

#include "models/step/step_link.h"
#include "models/transformer.h"

namespace rocmforge {

/// A model whose layers lie on several devices, one stage of them after another (ModelOptions::stage_ends): each device has
/// the weights of its layers, their K, V and states, and buffers and recorded steps of its own, and hands the rows of a step
/// to the next one. A stage may have parts on the host beside its device, as a model on one device.
///
/// On GPUs a call of `forward` puts the step on the streams of all of them and returns. So the first one computes the next
/// part of a prompt while the second one computes this part: all GPUs work at once as long as steps draw nothing that the
/// next step needs. What is computed depends on none of this.
class LayerPipeline final : public Model {
 public:
  /// `config` is that of the file; `device` stands for all devices, which are alike.
  LayerPipeline(const ModelConfig& config, const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device,
                int num_threads, const ModelOptions& options);

  /// `devices` has one for each stage. Rows go from one to the next where this can access its memory, else through pinned
  /// memory of the host, with a warning.
  void load(const Devices& devices, ThreadPool& pool) override;
  /// The same with the way of the rows chosen.
  void load(const Devices& devices, ThreadPool& pool, StepLink::Route route);

  [[nodiscard]] std::int32_t ranks() const override { return static_cast<std::int32_t>(stages_.size()); }
  [[nodiscard]] std::vector<std::int32_t> stage_ends() const override { return ends_; }
  [[nodiscard]] const Model& of_rank(std::size_t rank) const override { return *stages_.at(rank); }
  [[nodiscard]] std::vector<RankBytes> rank_bytes() const override;

  [[nodiscard]] const ModelConfig& config() const override { return stages_.front()->config(); }
  /// The planes of all stages.
  [[nodiscard]] const KvGroups& kv_groups() const override { return kv_groups_; }
  [[nodiscard]] const std::vector<PlannedOperation>& plan() const override { return plan_; }
  [[nodiscard]] const ModelParts& parts() const override { return parts_; }
  [[nodiscard]] bool parts_on_host() const override;
  // Of all stages together.
  [[nodiscard]] std::size_t state_bytes() const override;
  [[nodiscard]] std::size_t host_state_bytes() const override;
  [[nodiscard]] std::size_t packed_bytes() const override;
  [[nodiscard]] std::size_t workspace_bytes() const override;
  [[nodiscard]] std::size_t bytes_per_token() const override;
  [[nodiscard]] std::size_t device_weight_bytes() const override;
  [[nodiscard]] std::size_t host_weight_bytes() const override;
  [[nodiscard]] std::size_t host_workspace_bytes() const override;

  void load_adapter(std::int32_t id, std::shared_ptr<const LoraFile> file) override;
  void unload_adapter(std::int32_t id) override;
  void forward(const BatchPlan& batch, SequenceMemory& memory) override;
  [[nodiscard]] std::int32_t mtp_blocks() const override { return last().mtp_blocks(); }
  void forward_mtp(std::int32_t block, const BatchPlan& batch, SequenceMemory& memory) override;
  [[nodiscard]] std::span<const std::int32_t> sampled() override { return last().sampled(); }
  [[nodiscard]] std::span<const std::int32_t> previous_sampled() override { return last().previous_sampled(); }
  [[nodiscard]] std::span<const float> draw_probabilities() override { return last().draw_probabilities(); }
  [[nodiscard]] bool runs_ahead() const override { return !parts_on_host() && last().runs_ahead(); }
  [[nodiscard]] std::span<const float> logits() override { return last().logits(); }
  [[nodiscard]] std::span<const float> raw_logits() override { return last().raw_logits(); }
  [[nodiscard]] std::span<const float> hidden() override { return last().hidden(); }
  void wait() override;
  /// Of all stages, one after another.
  [[nodiscard]] std::vector<OperationTime> time_operations(const BatchPlan& batch, SequenceMemory& memory) override;

 private:
  [[nodiscard]] Transformer& last() { return *stages_.back(); }
  [[nodiscard]] const Transformer& last() const { return *stages_.back(); }
  /// The tables of all stages as one.
  void join_plans();
  void connect(const Devices& devices, StepLink::Route route);

  std::vector<std::int32_t> ends_;
  std::function<void(double)> progress_;
  double loaded_ = 0.0;  ///< of the weights, before the stage that is loaded now
  double loading_ = 0.0;
  KvGroups kv_groups_;
  std::vector<PlannedOperation> plan_;
  ModelParts parts_;
  std::vector<std::unique_ptr<StepLink>> links_;      ///< between stages, and behind them that of the drawn tokens
  std::vector<std::unique_ptr<Transformer>> stages_;  ///< last, because they wait for steps that use the links
};

}  // namespace rocmforge
