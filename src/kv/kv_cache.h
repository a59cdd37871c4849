#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/kv_layout.h"

namespace rocmforge {

/// Storage of all layers' blocks. Block ids are shared by all layers: block b of layer l is part of the same 'page'.
class KvCache {
 public:
  /// Throws Error with the sizes when the memory can't be had. Memory is touched only as it is used.
  KvCache(const KvLayout& layout, std::int32_t num_layers, std::int32_t num_blocks);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  [[nodiscard]] const KvLayout& layout() const { return layout_; }
  [[nodiscard]] std::int32_t num_blocks() const { return num_blocks_; }
  [[nodiscard]] KvCacheView layer(std::int32_t index) const;
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  /// Copies one block in every layer (copy-on-write).
  void copy_block(std::int32_t from, std::int32_t to);

 private:
  KvLayout layout_;
  std::int32_t num_layers_;
  std::int32_t num_blocks_;
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace rocmforge
