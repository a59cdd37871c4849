#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "ops/kv_layout.h"

namespace rocmforge {

/// Storage of all layers' blocks in a device's memory. Block ids are shared by all layers: block b of layer l is part of the
/// same 'page'.
class KvCache {
 public:
  /// A model without attention has no layers here, and its blocks no bytes.
  /// Throws Error with the sizes when the memory can't be had. On the CPU memory is touched only as it is used.
  /// `device` must outlive the cache.
  KvCache(Device& device, const KvLayout& layout, std::int32_t num_layers, std::int32_t num_blocks);

  [[nodiscard]] const KvLayout& layout() const { return layout_; }
  [[nodiscard]] std::int32_t num_blocks() const { return num_blocks_; }
  [[nodiscard]] std::int32_t num_layers() const { return num_layers_; }
  /// Where all layers begin, null without one.
  [[nodiscard]] const void* data() const { return memory_.data(); }
  [[nodiscard]] KvCacheView layer(std::int32_t index) const;
  [[nodiscard]] std::size_t bytes() const { return memory_.size_bytes(); }

  /// Copies one block in every layer (copy-on-write); on a GPU in the order of the compute stream.
  void copy_block(std::int32_t from, std::int32_t to);

 private:
  Device* device_;
  KvLayout layout_;
  std::int32_t num_layers_;
  std::int32_t num_blocks_;
  DeviceBuffer memory_;
};

}  // namespace rocmforge
