#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "device/devices.h"
#include "memory/kv_group.h"
#include "ops/kv_layout.h"

namespace rocmforge {

/// Storage of the blocks of one group of pages, each plane in the memory of its side. Block ids are shared by its planes:
/// block b of plane p is part of the same 'page'.
class KvCache {
 public:
  /// Without planes the blocks have no bytes.
  /// Throws Error with the sizes when the memory can't be allocated. On the CPU pages are touched only when they are used.
  /// `devices` must outlive the cache.
  KvCache(const Devices& devices, std::vector<KvLayout> planes, std::int32_t num_blocks)
      : KvCache(devices, KvGroup{.planes = std::move(planes)}, num_blocks) {}
  KvCache(const Devices& devices, const KvGroup& group, std::int32_t num_blocks);

  [[nodiscard]] const std::vector<KvLayout>& planes() const { return group_.planes; }
  [[nodiscard]] std::int32_t num_blocks() const { return num_blocks_; }
  [[nodiscard]] std::int32_t num_planes() const { return static_cast<std::int32_t>(group_.planes.size()); }
  /// The address of the first plane on the device, null without one.
  [[nodiscard]] const void* data() const { return memory_[0].data(); }
  [[nodiscard]] KvCacheView plane(std::int32_t index) const;
  [[nodiscard]] std::size_t bytes() const { return memory_[0].size_bytes() + memory_[1].size_bytes(); }

  /// Copies one block in every plane (copy-on-write); on a GPU in the order of the compute stream.
  void copy_block(std::int32_t from, std::int32_t to);
  /// The bytes of one block in all planes.
  [[nodiscard]] std::size_t block_bytes() const { return block_bytes_of(group_); }
  /// Copies a block in every plane, one after another, to block_bytes() of host memory, or back from there. On a GPU in the
  /// order of the compute stream: the host must not touch the memory before the stream has come there.
  void save_block(std::int32_t from, std::byte* to);
  void load_block(const std::byte* from, std::int32_t to);

 private:
  /// The address of a block in a plane.
  [[nodiscard]] std::byte* block(std::size_t plane, std::int32_t index) const;

  Devices devices_;
  KvGroup group_;
  std::vector<std::size_t> starts_;  ///< of each plane in the memory of its side, in bytes
  std::int32_t num_blocks_;
  DeviceBuffer memory_[2];  ///< of each Side
};

}  // namespace rocmforge
