#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device.h"

namespace rocmforge {

/// Blocks of host memory of one size, for copies of what a device holds: pinned memory for a GPU. It grows in pieces of at
/// least piece_bytes, or of most_in_piece blocks, which are not given back before the end.
class HostCopies {
 public:
  static constexpr std::size_t piece_bytes = std::size_t{64} << 20;
  static constexpr std::int32_t most_in_piece = 1 << 16;

  /// `device` must outlive it.
  HostCopies(Device& device, std::size_t block_bytes, std::int64_t max_bytes);

  /// Adds a piece, or what is left up to the limit. Returns the number of blocks that there are then. Throws Error when the
  /// host has no memory for it.
  std::int32_t grow();
  [[nodiscard]] std::int32_t num_blocks() const { return num_blocks_; }
  /// The most that there may be.
  [[nodiscard]] std::int32_t max_blocks() const { return max_blocks_; }
  [[nodiscard]] std::size_t block_bytes() const { return block_bytes_; }
  /// Of all blocks that there are, and that there may be.
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(num_blocks_) * block_bytes_; }
  [[nodiscard]] std::size_t max_bytes() const { return static_cast<std::size_t>(max_blocks_) * block_bytes_; }
  /// block_bytes() of it.
  [[nodiscard]] std::byte* block(std::int32_t index) const;

 private:
  Device* device_;
  std::size_t block_bytes_;
  std::int32_t max_blocks_;
  std::int32_t piece_blocks_;
  std::int32_t num_blocks_ = 0;
  std::vector<PinnedBuffer> pieces_;  ///< of piece_blocks_ each; the last may have fewer
};

}  // namespace rocmforge
