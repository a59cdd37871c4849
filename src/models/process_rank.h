#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/step/process_communicator.h"
#include "models/step/step_message.h"
#include "models/transformer.h"

namespace rocmforge {

/// A model whose layers several processes share, as TensorParallel shares them among threads. Rank 0 has the engine: before
/// each step it sends what the others need of it, and they compute in follow(). Sizes are those of one rank.
///
/// A rank that throws in a step can't go on, and neither can the others: RankProcesses::fail ends the job.
class ProcessRank final : public Model {
 public:
  /// `config` is that of the file, `options.processes` the ranks.
  ProcessRank(ModelConfig config, const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device,
              int num_threads, const ModelOptions& options);
  /// On rank 0 ends follow() of the others, where lead() was called.
  ~ProcessRank() override;

  void load(const Devices& devices, ThreadPool& pool) override { model_.load(devices, pool); }
  /// Of rank 0, once all ranks have loaded: the others are about to follow.
  void lead() { leads_ = true; }
  /// Of the other ranks: computes steps until rank 0 has no more.
  void follow(SequenceMemory& memory);

  [[nodiscard]] const ModelConfig& config() const override { return model_.config(); }
  [[nodiscard]] const KvGroups& kv_groups() const override { return model_.kv_groups(); }
  [[nodiscard]] std::size_t state_bytes() const override { return model_.state_bytes(); }
  [[nodiscard]] const std::vector<PlannedOperation>& plan() const override { return model_.plan(); }
  [[nodiscard]] std::size_t packed_bytes() const override { return model_.packed_bytes(); }
  [[nodiscard]] std::size_t workspace_bytes() const override { return model_.workspace_bytes(); }
  [[nodiscard]] std::size_t bytes_per_token() const override { return model_.bytes_per_token(); }
  [[nodiscard]] std::size_t device_weight_bytes() const override { return model_.device_weight_bytes(); }

  void copy_block(SequenceMemory& memory, std::int32_t group, std::int32_t from, std::int32_t to) override;
  void forward(const BatchPlan& batch, SequenceMemory& memory) override;
  [[nodiscard]] std::int32_t mtp_blocks() const override { return model_.mtp_blocks(); }
  void forward_mtp(std::int32_t block, const BatchPlan& batch, SequenceMemory& memory) override;
  [[nodiscard]] std::span<const std::int32_t> sampled() override { return model_.sampled(); }
  [[nodiscard]] std::span<const std::int32_t> previous_sampled() override { return model_.previous_sampled(); }
  [[nodiscard]] std::span<const float> draw_probabilities() override { return model_.draw_probabilities(); }
  [[nodiscard]] bool runs_ahead() const override { return false; }
  [[nodiscard]] std::span<const float> logits() override { return model_.logits(); }
  [[nodiscard]] std::span<const float> raw_logits() override { return model_.raw_logits(); }
  [[nodiscard]] std::span<const float> hidden() override { return model_.hidden(); }
  void wait() override {}
  [[nodiscard]] std::vector<OperationTime> time_operations(const BatchPlan& batch, SequenceMemory& memory) override;

 private:
  /// Sends a step to the other ranks and computes it with them; what it throws ends the job.
  template <class Compute>
  void with_all(StepMessage::Kind kind, std::int32_t mtp_block, const BatchPlan& batch, const Compute& compute);
  void send(StepMessage::Kind kind, std::int32_t mtp_block, const BatchPlan& batch);
  void receive(StepMessage& message);
  void compute(const StepMessage& message, SequenceMemory& memory);

  RankProcesses* processes_;
  ProcessCommunicator communicator_;
  Transformer model_;
  bool leads_ = false;
  std::vector<StepMessage::Copy> copies_;  ///< since the last step
  std::vector<std::byte> bytes_;           ///< of a message
};

}  // namespace rocmforge
