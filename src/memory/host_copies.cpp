#include "memory/host_copies.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace rocmforge {

HostCopies::HostCopies(Device& device, std::size_t block_bytes, std::int64_t max_bytes)
    : device_(&device), block_bytes_(block_bytes) {
  check(block_bytes > 0 && max_bytes >= 0, "copies have bytes");
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() - 1;
  const auto bytes = static_cast<std::int64_t>(block_bytes);
  max_blocks_ = static_cast<std::int32_t>(std::min(max_bytes / bytes, most));
  const auto least = static_cast<std::int64_t>((piece_bytes + block_bytes - 1) / block_bytes);
  piece_blocks_ = static_cast<std::int32_t>(std::min<std::int64_t>(least, most_in_piece));
}

std::int32_t HostCopies::grow() {
  const std::int32_t more = std::min(piece_blocks_, max_blocks_ - num_blocks_);
  if (more > 0) {
    pieces_.push_back(device_->allocate_pinned(block_bytes_ * static_cast<std::size_t>(more)));
    num_blocks_ += more;
  }
  return num_blocks_;
}

std::byte* HostCopies::block(std::int32_t index) const {
  check(index >= 0 && index < num_blocks_, "there is no such block of host memory");
  return pieces_[static_cast<std::size_t>(index / piece_blocks_)].data() +
         block_bytes_ * static_cast<std::size_t>(index % piece_blocks_);
}

}  // namespace rocmforge
