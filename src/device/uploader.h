#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "device/device.h"

namespace rocmforge {

class ThreadPool;

/// Copies host memory of any kind to a GPU through two pinned buffers in turn: while the device reads one of them, the host
/// fills the other. So no page of a mapped file reaches an asynchronous copy. Runtimes lock such pages one by one, which
/// makes copies of many gigabytes slow and has made some hang.
class Uploader {
 public:
  static constexpr std::size_t largest_part_bytes = std::size_t{32} << 20;

  /// `device` is a GPU and outlives the uploader. `part_limit_bytes`, a power of two, limits each of the two buffers.
  explicit Uploader(Device& device, std::size_t part_limit_bytes = largest_part_bytes)
      : device_(&device), part_limit_bytes_(part_limit_bytes) {}
  /// Waits until the device has read the buffers.
  ~Uploader() { abandon(); }
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  /// Returns when `from` may be reused. The copy is in the order of the compute stream. The threads of `pool`, which may be
  /// null, share the host's part. Throws Error when a call of the runtime fails; the uploader can be used again.
  void copy(std::byte* to, const std::byte* from, std::size_t size_bytes, ThreadPool* pool);
  /// Waits until every copy has ended, and frees the buffers. Throws Error when a copy has failed.
  void finish();

 private:
  /// One of the two buffers, and the event behind the copy that read it last.
  struct Part {
    explicit Part(Device& device, std::size_t size_bytes) : memory(device.allocate_pinned(size_bytes)), read(device) {}
    PinnedBuffer memory;
    Event read;
    bool used = false;
  };

  void make_parts(std::size_t size_bytes);
  void send(Part& part, std::byte* to, std::size_t size_bytes);
  void wait_once_more() noexcept;
  void abandon() noexcept;

  Device* device_;
  std::size_t part_limit_bytes_;
  std::array<std::optional<Part>, 2> parts_;
  std::size_t part_bytes_ = 0;
  std::size_t next_ = 0;
};

}  // namespace rocmforge
