#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <unordered_map>
#include <vector>

#include "device/device.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// Gives each weight of a file the memory a kernel reads it from. On the CPU that is the mapped file itself, or a copy in
/// the kernel's layout; on a GPU always a copy, made once for each tensor and layout. The file's pages leave memory once a
/// copy is made, so that the two never add up. Addresses stay valid for the store's life.
class WeightStore {
 public:
  /// `file` and `device` must outlive the store.
  WeightStore(const GgufFile& file, Device& device) : file_(&file), device_(&device) {}

  /// Writes the copy into host memory: `rows` as the file has them, `packed` 64-byte aligned and zeroed.
  using Pack = std::function<void(const void* rows, void* packed)>;

  /// Takes memory for copies of that many bytes in all (the sum of `copy_bytes`) at once, so that what does not fit is said
  /// before anything is copied.
  void reserve(std::size_t size_bytes);

  /// The tensor's rows as the file has them. Throws Error when a plain type lies at an address it can't be read from.
  const void* view(const GgufTensor& tensor);
  /// A copy of `packed_bytes` that `pack` writes.
  const void* repack(const GgufTensor& tensor, std::size_t packed_bytes, const Pack& pack);
  /// A copy of `size_bytes` made of several tensors, or of parts of one. `write` is called once with where it goes in host
  /// memory, 64-byte aligned.
  const void* assemble(std::span<const GgufTensor* const> tensors, std::size_t size_bytes,
                       const std::function<void(std::byte*)>& write);
  /// A vector (norm, bias) as f32.
  const float* floats(const GgufTensor& tensor);
  /// Numbers that come from no tensor; on the CPU the caller's own, which must outlive the store.
  const float* floats(std::span<const float> values);

  /// Lets go of what only loading needed.
  void finish();

  /// Bytes of all copies.
  [[nodiscard]] std::size_t owned_bytes() const { return owned_bytes_; }

  /// What a copy of that size takes.
  static std::size_t copy_bytes(std::size_t size_bytes);

 private:
  std::byte* allocate(std::size_t size_bytes);
  [[nodiscard]] const void* in_file(const GgufTensor& tensor) const;
  /// Host memory of the largest copy so far, 64-byte aligned.
  std::byte* staging(std::size_t size_bytes);

  struct FreeStaging {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{64}); }
  };

  const GgufFile* file_;
  Device* device_;
  std::vector<DeviceBuffer> chunks_;
  std::size_t chunk_used_ = 0;  ///< of the last chunk
  std::size_t owned_bytes_ = 0;
  std::unordered_map<const void*, const void*> uploaded_;  ///< a GPU's copies of file rows by their address in the file
  std::unique_ptr<std::byte, FreeStaging> staging_;
  std::size_t staging_bytes_ = 0;
};

}  // namespace rocmforge
