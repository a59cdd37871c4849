#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/peers.h"
#include "models/step/collective_library.h"
#include "models/step/peer_sums.h"
#include "models/step/thread_communicator.h"
#include "ops/kernel_registry.h"

namespace rocmforge {

/// Ranks that are GPUs of one host, each with a thread of this process, and how they exchange. RankExchange moves everything
/// but large sums, through the memory of the GPUs where they can access each other's, else through the host's. Large sums
/// are those of NCCL or RCCL, which is needed where the GPUs have no such access. Within a step no host waits for another
/// rank: a rank that fails lets the kernels of the others go, whose step then means nothing.
class DeviceRanks final : public RankGroup {
 public:
  /// Sums from this size on are the library's: with access to each other's memory, and through the host's.
  static constexpr std::size_t large_sum_bytes = std::size_t{4} << 20;
  static constexpr std::size_t large_sum_bytes_by_host = std::size_t{256} << 10;
  /// A prompt's step is computed in halves from so many rows on, with sums of so many bytes: below, a sum takes less time
  /// than products lose in halves, whose tiles fill the multiprocessors less evenly.
  static constexpr std::int64_t halved_rows = 1024;
  static constexpr std::size_t halved_sum_bytes = std::size_t{16} << 20;

  /// Chooses the kernel that exchanges on GPUs like `device`. Throws Error if there is none.
  DeviceRanks(std::int32_t ranks, const KernelRegistry& registry, const DeviceInfo& device);
  /// Gives each rank its GPU; `devices` must outlive this. `library_names`: the library to open, empty for the vendor's own.
  /// `half_elements`: the most of a sum of half a step, or 0 where there are none.
  /// Throws Error where the GPUs can neither access each other's memory nor use the library.
  void open(std::vector<Device*> devices, std::span<const char* const> library_names = {}, std::int64_t half_elements = 0);

  /// Waits until all ranks have come here, on the host: an allocation may wait for kernels of any GPU, and these for the
  /// kernels that the allocating rank has yet to launch. Throws what a failing rank has thrown.
  void meet(std::int32_t rank) { hosts_.enter(rank, nullptr); }

  /// Of each rank, once opened.
  static std::size_t device_bytes(std::int32_t ranks, std::int64_t half_elements) {
    return RankExchange::box_bytes(ranks) + (half_elements > 0 ? PeerSums::device_bytes(ranks, half_elements) : 0);
  }

  /// See Communicator. Before open() as if the GPUs could access each other's memory.
  [[nodiscard]] std::int64_t halves_from(std::int64_t width) const;
  /// Where sums of halves cross the links; null where the GPUs can't access each other's memory.
  [[nodiscard]] PeerSums* half_sums() { return half_sums_ ? &*half_sums_ : nullptr; }

  [[nodiscard]] std::int32_t count() const override { return spec_.ranks; }
  void begin_step() override;
  void fail(std::exception_ptr failure) override;
  std::unique_ptr<Communicator> communicator(std::int32_t rank) override;

  /// Whether a sum of so many elements is the library's.
  [[nodiscard]] bool is_large(std::int64_t count) const {
    return library_ && static_cast<std::size_t>(count) * sizeof(float) >= large_from_;
  }

  /// A call of `rank` on the stream of its device; sets the rank and the memory in `args`.
  void exchange(std::int32_t rank, RankExchange::Args args);
  [[nodiscard]] const CollectiveRanks& library() const { return *library_; }
  [[nodiscard]] Device& device(std::int32_t rank) const { return *devices_[static_cast<std::size_t>(rank)]; }

 private:
  ThreadRanks hosts_;
  RankExchange::Spec spec_;
  const OpKernel<RankExchange>* kernel_;
  std::vector<Device*> devices_;
  std::vector<std::unique_ptr<PeerBuffer>> boxes_;  ///< of each rank
  std::vector<DeviceBuffer> rounds_;                ///< likewise
  std::vector<std::unique_ptr<PeerFlag>> given_up_;
  std::optional<CollectiveRanks> library_;
  std::optional<PeerSums> half_sums_;
  std::size_t large_from_ = large_sum_bytes;
  std::atomic<bool> failed_{false};
};

/// One of these ranks. Arrays are in the memory of its device.
class DeviceCommunicator final : public Communicator {
 public:
  DeviceCommunicator(DeviceRanks& ranks, std::int32_t rank) : ranks_(&ranks), rank_(rank) {}

  [[nodiscard]] std::int32_t rank() const override { return rank_; }
  [[nodiscard]] std::int32_t ranks() const override { return ranks_->count(); }
  void begin_work() override { ranks_->meet(rank_); }
  void all_reduce(const AllReduce::Spec& spec, const OpKernel<AllReduce>& kernel, const Sum& sum,
                  ExecutionContext& context) override;
  [[nodiscard]] std::int64_t halves_from(std::int64_t width) const override { return ranks_->halves_from(width); }
  void begin_sum(std::size_t half, const HalfSum& sum) override;
  void finish_sum(std::size_t half, ExecutionContext& context) override;
  void gather(const float* part, std::int64_t rows, std::span<const std::int64_t> widths, Receivers receivers,
              float* out) override;
  void broadcast(void* data, std::size_t size_bytes) override;

 private:
  DeviceRanks* ranks_;
  std::int32_t rank_;
};

}  // namespace rocmforge
