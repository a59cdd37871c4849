#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/runtime_library.h"

namespace rocmforge {

/// The calls of NCCL, and of RCCL, which has the same, that sums over GPUs need; found when the program runs. Declared after
/// nccl.h of NCCL 2 and rccl.h of ROCm 5 to 7: handles are pointers, enums have the size of int.
struct CollectiveLibrary {
  using Handle = void*;

  /// libnccl.so.2 or librccl.so.1. Throws Error where it can't be opened, or is too old.
  explicit CollectiveLibrary(std::span<const char* const> names);
  static std::span<const char* const> names_of(DeviceKind kind);

  RuntimeLibrary library;

  static constexpr int float32 = 7;  ///< ncclFloat32
  static constexpr int sum = 0;      ///< ncclSum

  Entry<int(int*)> get_version;
  Entry<const char*(int)> error_string;
  Entry<int(Handle*, int, const int*)> comm_init_all;  ///< for the devices of one process, by their numbers
  Entry<int(Handle)> comm_abort;                       ///< ends what is under way, and frees
  Entry<int(const void*, void*, std::size_t, int, int, Handle, void*)> all_reduce;

  /// "unhandled cuda error of libnccl.so.2"
  [[nodiscard]] std::string describe(int code) const;
};

/// The ranks of a model as the library knows them, each on its own GPU.
class CollectiveRanks {
 public:
  /// Throws Error where the library is missing or refuses the devices.
  CollectiveRanks(std::span<Device* const> devices, std::span<const char* const> names);
  ~CollectiveRanks();
  CollectiveRanks(const CollectiveRanks&) = delete;
  CollectiveRanks& operator=(const CollectiveRanks&) = delete;

  /// The sum over all ranks, in the order of the stream of this rank's device. `out` may be `part`. All ranks call it.
  void sum(std::int32_t rank, const float* part, float* out, std::int64_t count, Stream& stream) const;

 private:
  CollectiveLibrary library_;
  std::vector<CollectiveLibrary::Handle> ranks_;
};

}  // namespace rocmforge
