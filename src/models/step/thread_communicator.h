#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include "models/step/rank_group.h"

namespace rocmforge {

/// Ranks on the CPU. What a failing rank has thrown is thrown to all others, at the latest when they wait for it.
class ThreadRanks final : public RankGroup {
 public:
  explicit ThreadRanks(std::int32_t ranks);

  [[nodiscard]] std::int32_t count() const override { return ranks_; }
  void begin_step() override;
  void fail(std::exception_ptr failure) override;
  std::unique_ptr<Communicator> communicator(std::int32_t rank) override;
  /// Makes `array` known to the others and waits until all arrays are. Those of all ranks stay valid until leave().
  const std::vector<const void*>& enter(std::int32_t rank, const void* array);
  /// Waits until no rank reads the arrays any more.
  void leave() { meet(); }

 private:
  void meet();
  void rethrow();

  std::int32_t ranks_;
  std::vector<const void*> arrays_;
  std::atomic<std::int32_t> arrived_{0};
  std::atomic<std::uint32_t> phase_{0};  ///< changes when all have arrived, and with a failure
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  ///< of failure_
  std::exception_ptr failure_;
};

/// One of these ranks. Arrays are in memory of the host, which all threads read where it is.
class ThreadCommunicator final : public Communicator {
 public:
  /// `ranks` must outlive it.
  ThreadCommunicator(ThreadRanks& ranks, std::int32_t rank) : ranks_(&ranks), rank_(rank) {}

  [[nodiscard]] std::int32_t rank() const override { return rank_; }
  [[nodiscard]] std::int32_t ranks() const override { return ranks_->count(); }
  void all_reduce(const AllReduce::Spec& spec, const OpKernel<AllReduce>& kernel, const Sum& sum,
                  ExecutionContext& context) override;
  void gather(const float* part, std::int64_t rows, std::span<const std::int64_t> widths, Receivers receivers,
              float* out) override;
  void broadcast(void* data, std::size_t size_bytes) override;

 private:
  ThreadRanks* ranks_;
  std::int32_t rank_;
};

}  // namespace rocmforge
