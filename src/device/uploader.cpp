#include "device/uploader.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/mapped_file.h"
#include "base/thread_pool.h"

namespace rocmforge {
namespace {

/// What one thread copies at a time.
constexpr std::int64_t piece_bytes = std::int64_t{1} << 20;

/// Copies the first `size_bytes` of `from` to `to`. The threads also ask the system for the same share of what follows, up
/// to `size_bytes` more: the disk reads the next part while this one is on its way to the device.
void fill_part(std::byte* to, std::span<const std::byte> from, std::size_t size_bytes, ThreadPool* pool) {
  const std::span<const std::byte> following = from.subspan(size_bytes);
  const auto copy_piece = [&](std::int64_t begin, std::int64_t end) {
    const auto first = static_cast<std::size_t>(begin);
    const auto count = static_cast<std::size_t>(end - begin);
    if (first < following.size()) {
      read_ahead(following.subspan(first, std::min(count, following.size() - first)));
    }
    std::memcpy(to + first, from.data() + first, count);
  };
  const auto count = static_cast<std::int64_t>(size_bytes);
  if (pool == nullptr || count <= piece_bytes) {
    copy_piece(0, count);
  } else {
    pool->parallel_for(count, piece_bytes, copy_piece);
  }
}

}  // namespace

void Uploader::copy(std::byte* to, const std::byte* from, std::size_t size_bytes, ThreadPool* pool) {
  try {
    make_parts(size_bytes);
    for (std::size_t done = 0; done < size_bytes;) {
      const std::size_t count = std::min(part_bytes_, size_bytes - done);
      Part& part = *parts_[next_];
      if (part.used) {
        part.read.synchronize();
      }
      fill_part(part.memory.data(), {from + done, size_bytes - done}, count, pool);
      send(part, to + done, count);
      next_ = 1 - next_;
      done += count;
    }
  } catch (...) {
    abandon();
    throw;
  }
}

void Uploader::send(Part& part, std::byte* to, std::size_t size_bytes) {
  Stream& stream = device_->stream();
  stream.copy_to_device(to, part.memory.data(), size_bytes);
  stream.record(part.read);
  part.used = true;
}

/// Small uploads take small buffers, because locking memory takes time.
void Uploader::make_parts(std::size_t size_bytes) {
  const std::size_t needed = std::min(part_limit_bytes_, std::bit_ceil(size_bytes));
  if (needed <= part_bytes_) {
    return;
  }
  finish();
  for (std::optional<Part>& part : parts_) {
    part.emplace(*device_, needed);
  }
  part_bytes_ = needed;
}

void Uploader::finish() {
  if (!parts_[0]) {
    return;
  }
  const auto free_parts = [&] {
    parts_ = {};
    part_bytes_ = 0;
  };
  try {
    device_->stream().synchronize();
  } catch (...) {
    wait_once_more();
    free_parts();
    throw;
  }
  free_parts();
}

/// The call that failed may have waited for nothing, and the device may still read the buffers. If this one fails, too, the
/// device is lost and reads nothing any more.
void Uploader::wait_once_more() noexcept {
  try {
    device_->stream().synchronize();
  } catch (...) {  // the error that came first is the one to report
  }
}

/// After an error it is not known which copies the device still makes, so the buffers stay until the stream has ended.
void Uploader::abandon() noexcept {
  try {
    finish();
  } catch (...) {  // the error that came first is the one to report
  }
}

}  // namespace rocmforge
