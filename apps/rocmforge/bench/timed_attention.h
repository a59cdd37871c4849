#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "checks/checked_calls.h"
#include "checks/inputs.h"
#include "ops/kernel_registry.h"

namespace rocmforge::app {

/// Sequences of equal lengths: the last `q_len` of `kv_len` positions are queries.
struct AttentionWork {
  std::int32_t sequences = 1;
  std::int32_t q_len = 1;
  std::int32_t kv_len = 1;
};

/// Random queries over paged caches of random numbers, their blocks in random order, in the memory of a device. For decode,
/// small caches have several sets, because in a model the other layers and the weights evict a cache from L2.
class AttentionInputs {
 public:
  /// `device`, `context` and `registry` must outlive the inputs.
  AttentionInputs(Device& device, ExecutionContext& context, const KernelRegistry& registry, const Attention::Spec& spec,
                  const KvLayout& layout, const AttentionWork& work);

  [[nodiscard]] const Attention::Spec& spec() const { return spec_; }
  [[nodiscard]] const KvLayout& layout() const { return layout_; }
  [[nodiscard]] const AttentionWork& work() const { return work_; }
  [[nodiscard]] const AttentionLimits& limits() const { return limits_; }
  [[nodiscard]] int sets() const { return sets_; }
  /// A call's arguments without output, workspace and state.
  [[nodiscard]] Attention::Args args(int set) const;
  /// The oracle's output for a set, [tokens x heads, head_dim], computed at the first call.
  std::span<const float> expected(int set);

  /// Multiply-adds of the visible keys, times two; bytes of the keys and values that are read.
  [[nodiscard]] double flops() const;
  [[nodiscard]] double kv_bytes() const;

 private:
  [[nodiscard]] std::size_t bytes_of_set() const { return layout_.block_bytes() * static_cast<std::size_t>(num_blocks_); }

  Device& device_;
  ExecutionContext& context_;
  const AttentionBackend& oracle_;
  Attention::Spec spec_;
  KvLayout layout_;
  AttentionWork work_;
  AttentionLimits limits_;
  int sets_ = 1;
  std::int64_t num_blocks_ = 0;  ///< of a set
  CallArrays arrays_;
  Slot<float> q_;
  std::vector<BatchArrays> batches_;
  std::unique_ptr<PlacedArrays> place_;
  DeviceBuffer caches_;
  std::vector<std::vector<float>> expected_;
};

/// The calls of one backend on inputs that outlive them, in whose layout it computes.
class TimedAttention final : public CheckedCalls {
 public:
  TimedAttention(Device& device, ExecutionContext& context, const AttentionBackend& kernel, AttentionInputs& inputs);
  [[nodiscard]] int inputs() const override { return inputs_.sets(); }
  void run(int input) override;

 private:
  std::span<const float> expected(int input) override { return inputs_.expected(input); }

  const AttentionBackend& kernel_;
  AttentionInputs& inputs_;
  void* workspace_;
  DeviceBuffer state_;
};

}  // namespace rocmforge::app
