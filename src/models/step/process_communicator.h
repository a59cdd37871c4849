#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/step/communicator.h"
#include "models/step/rank_processes.h"

namespace rocmforge {

/// This process among those that share a model. The parts of a sum are sent to all ranks, and each adds them in their order.
class ProcessCommunicator final : public Communicator {
 public:
  /// `processes` must outlive it.
  explicit ProcessCommunicator(RankProcesses& processes) : processes_(&processes) {}

  [[nodiscard]] std::int32_t rank() const override { return processes_->rank(); }
  [[nodiscard]] std::int32_t ranks() const override { return processes_->count(); }
  void all_reduce(const AllReduce::Spec& spec, const OpKernel<AllReduce>& kernel, const Sum& sum,
                  ExecutionContext& context) override;
  void gather(const float* part, std::int64_t rows, std::span<const std::int64_t> widths, Receivers receivers,
              float* out) override;
  void broadcast(void* data, std::size_t size_bytes) override;

 private:
  RankProcesses* processes_;
  std::vector<float> parts_;  ///< of the ranks, in one operation
};

}  // namespace rocmforge
