#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "ops/all_reduce.h"
#include "ops/kernel_registry.h"

namespace rocmforge {

/// Sums over ranks that are GPUs with access to each other's memory, beside whatever these compute meanwhile: parts and sums
/// are copied from memory to memory by the copy engines, which take no multiprocessor from the products of prompts, as a
/// library's kernels would. A rank gets one slice of all parts, adds it in the order of the ranks, and copies it to all
/// others: all have the same bits, those of RankExchange. docs/kernels/rank_exchange.md says what waits for what.
class PeerSums {
 public:
  static constexpr std::size_t at_once = 2;  ///< sums that are under way, each in its place

  /// For sums of up to `most_elements`. `devices` outlive this.
  PeerSums(std::span<Device* const> devices, std::int64_t most_elements);
  /// Waits until no copy is under way.
  ~PeerSums();
  PeerSums(const PeerSums&) = delete;
  PeerSums& operator=(const PeerSums&) = delete;

  /// Of each rank.
  static std::size_t device_bytes(std::int32_t ranks, std::int64_t most_elements);

  /// Waits until all ranks have come to the same call, on the host.
  using Meet = std::function<void()>;
  /// Begins the sum of `part` [count] of all ranks, which must stay as it is until finish(). Each rank calls it on its own
  /// thread, behind the work on its compute stream that makes the part.
  void begin(std::int32_t rank, std::size_t place, const float* part, std::int64_t count, const OpKernel<AllReduce>& kernel,
             const Meet& meet);
  /// The compute stream waits for the sum, the host does not. Its [count] elements stay until this place's next sum begins.
  const float* finish(std::int32_t rank, std::size_t place, const Meet& meet);

 private:
  /// One of the sums that are under way, as a rank sees it.
  struct Pending {
    Pending(Device& device, std::int32_t ranks, std::int64_t most_elements);
    DeviceBuffer parts;  ///< [ranks, slice]: of this rank's slice, from the others
    DeviceBuffer sums;   ///< [elements]
    Event sent;          ///< behind the copies of this rank's part
    Event told;          ///< behind those of its slice of the sum
  };
  struct OfRank {
    OfRank(Device& device, std::int32_t ranks, std::int64_t most_elements);
    Device* device;
    Stream copies;
    Event made;  ///< the part, on the compute stream
    std::array<Pending, at_once> pending;
  };
  struct Slice {
    std::int64_t first;
    std::int64_t count;
  };
  [[nodiscard]] Slice slice_of(std::size_t rank, std::int64_t count) const;

  std::int64_t most_elements_;
  std::int64_t slice_;  ///< the most elements of one
  std::vector<std::unique_ptr<OfRank>> ranks_;
};

}  // namespace rocmforge
