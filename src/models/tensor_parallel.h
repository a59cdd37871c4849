#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "models/step/rank_group.h"
#include "models/transformer.h"

namespace rocmforge {

class DeviceRanks;

/// A model whose layers several ranks share: each has some heads and features of every layer, with their weights, K and V,
/// states and buffers, and computes all tokens of a step with them; their parts are summed twice a layer. The first rank
/// draws the tokens. Each rank has a thread of this process, and is that thread on the CPU, or a GPU of its own. A rank that
/// throws ends the step for all.
class TensorParallel final : public Model {
 public:
  /// `config` is that of the file.
  TensorParallel(const ModelConfig& config, const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device,
                 int num_threads, const ModelOptions& options);

  /// The threads of `pool` are divided among the ranks, each of which gets a pool of its own. On GPUs `devices` has one for
  /// each rank.
  void load(const Devices& devices, ThreadPool& pool) override;

  [[nodiscard]] std::int32_t ranks() const override { return group_->count(); }
  [[nodiscard]] std::vector<RankBytes> rank_bytes() const override;

  // What all ranks have alike, or what the first one tells.
  [[nodiscard]] const ModelConfig& config() const override { return first().config(); }
  [[nodiscard]] const KvGroups& kv_groups() const override { return first().kv_groups(); }
  [[nodiscard]] std::size_t state_bytes() const override { return first().state_bytes(); }
  [[nodiscard]] const std::vector<PlannedOperation>& plan() const override { return first().plan(); }
  [[nodiscard]] std::size_t bytes_per_token() const override { return first().bytes_per_token(); }
  // Of all ranks together.
  [[nodiscard]] std::size_t packed_bytes() const override;
  [[nodiscard]] std::size_t workspace_bytes() const override;
  [[nodiscard]] std::size_t device_weight_bytes() const override;

  void load_adapter(std::int32_t id, std::shared_ptr<const LoraFile> file) override;
  void unload_adapter(std::int32_t id) override;
  void forward(const BatchPlan& batch, SequenceMemory& memory) override;
  [[nodiscard]] std::int32_t mtp_blocks() const override { return first().mtp_blocks(); }
  void forward_mtp(std::int32_t block, const BatchPlan& batch, SequenceMemory& memory) override;
  [[nodiscard]] std::span<const std::int32_t> sampled() override { return models_[0]->sampled(); }
  [[nodiscard]] std::span<const std::int32_t> previous_sampled() override { return models_[0]->previous_sampled(); }
  [[nodiscard]] std::span<const float> draw_probabilities() override { return models_[0]->draw_probabilities(); }
  [[nodiscard]] bool runs_ahead() const override { return first().runs_ahead(); }
  [[nodiscard]] std::span<const float> logits() override { return models_[0]->logits(); }
  [[nodiscard]] std::span<const float> raw_logits() override { return models_[0]->raw_logits(); }
  [[nodiscard]] std::span<const float> hidden() override { return models_[0]->hidden(); }
  void wait() override;
  [[nodiscard]] std::vector<OperationTime> time_operations(const BatchPlan& batch, SequenceMemory& memory) override;

 private:
  [[nodiscard]] const Transformer& first() const { return *models_[0]; }
  /// The most elements of a sum of half a step; 0 where none is computed in halves.
  [[nodiscard]] std::int64_t half_elements() const;
  /// Calls work(rank) on the thread of each rank.
  void on_all_ranks(const std::function<void(std::size_t)>& work);

  DeviceRanks* devices_ = nullptr;  ///< the group, if the ranks are GPUs
  std::unique_ptr<RankGroup> group_;
  std::vector<std::unique_ptr<Communicator>> own_;  ///< of each rank
  std::vector<std::unique_ptr<ThreadPool>> pools_;
  std::vector<std::unique_ptr<Transformer>> models_;
  std::unique_ptr<ThreadPool> threads_;  ///< one for each rank, the caller's for the first
};

}  // namespace rocmforge
