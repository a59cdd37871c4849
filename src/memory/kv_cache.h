#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device.h"
#include "ops/kv_layout.h"

namespace rocmforge {

/// Storage of the blocks of one group of pages in a device's memory. Block ids are shared by its planes: block b of plane p
/// is part of the same 'page'.
class KvCache {
 public:
  /// Without planes the blocks have no bytes.
  /// Throws Error with the sizes when the memory can't be allocated. On the CPU pages are touched only when they are used.
  /// `device` must outlive the cache.
  KvCache(Device& device, std::vector<KvLayout> planes, std::int32_t num_blocks);

  [[nodiscard]] const std::vector<KvLayout>& planes() const { return planes_; }
  [[nodiscard]] std::int32_t num_blocks() const { return num_blocks_; }
  [[nodiscard]] std::int32_t num_planes() const { return static_cast<std::int32_t>(planes_.size()); }
  /// The address of the first plane, null without one.
  [[nodiscard]] const void* data() const { return memory_.data(); }
  [[nodiscard]] KvCacheView plane(std::int32_t index) const;
  [[nodiscard]] std::size_t bytes() const { return memory_.size_bytes(); }

  /// Copies one block in every plane (copy-on-write); on a GPU in the order of the compute stream.
  void copy_block(std::int32_t from, std::int32_t to);

 private:
  Device* device_;
  std::vector<KvLayout> planes_;
  std::vector<std::size_t> starts_;  ///< of each plane, in bytes
  std::int32_t num_blocks_;
  DeviceBuffer memory_;
};

}  // namespace rocmforge
