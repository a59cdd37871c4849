#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "weights/gguf_file.h"

namespace rocmforge {

/// Zeroed memory from the system, page-aligned, in huge pages where the system has them. Only touched pages are held.
/// Move-only.
class HostMemory {
 public:
  HostMemory() = default;
  /// Throws Error with the size when the memory can't be had.
  explicit HostMemory(std::size_t size_bytes);
  ~HostMemory();
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&& other) noexcept;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size_bytes() const { return size_bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

/// Gives each weight of a file the memory a kernel reads it from: the mapped file itself, or a copy in the kernel's layout.
/// The file's pages leave memory once a copy is made, so that the two never add up. Addresses stay valid for the store's
/// life.
class WeightStore {
 public:
  /// `file` must outlive the store.
  explicit WeightStore(const GgufFile& file) : file_(&file) {}

  /// Writes the copy: `rows` as the file has them, `packed` 64-byte aligned and zeroed.
  using Pack = std::function<void(const void* rows, void* packed)>;

  /// The tensor where it lies in the file. Throws Error when a plain type lies at an address it can't be read from.
  const void* view(const GgufTensor& tensor) const;
  /// A copy of `packed_bytes` that `pack` writes.
  const void* repack(const GgufTensor& tensor, std::size_t packed_bytes, const Pack& pack);
  /// A vector (norm, bias, frequency factors) as f32: the file's own memory or, for F16 and BF16, a copy.
  const float* floats(const GgufTensor& tensor);

  /// Bytes of all copies.
  [[nodiscard]] std::size_t owned_bytes() const { return owned_bytes_; }

 private:
  std::byte* allocate(std::size_t size_bytes);

  const GgufFile* file_;
  std::vector<HostMemory> chunks_;
  std::size_t chunk_used_ = 0;  ///< of the last chunk
  std::size_t owned_bytes_ = 0;
};

}  // namespace rocmforge
