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

/// Provides the memory from which kernels read each weight of a file. On the CPU this is the mapped file itself, or a copy
/// in the kernel's layout. On a GPU it is always a copy, made once for each tensor and layout. The pages of the file may
/// leave memory after the copy, so that a weight does not take memory twice. Addresses stay valid as long as the store.
class WeightStore {
 public:
  /// `file` and `device` must outlive the store. The threads of `pool`, if there is one, share copies to a GPU until
  /// finish().
  WeightStore(const GgufFile& file, Device& device, ThreadPool* pool = nullptr)
      : file_(&file), device_(&device), pool_(pool) {}

  /// Writes a copy in host memory from `rows` in the file's layout. `packed` is 64-byte aligned and zeroed.
  using Pack = std::function<void(const void* rows, void* packed)>;

  /// Allocates the memory for copies of `size_bytes` in total (the sum of `copy_bytes`). Throws Error before anything is
  /// copied if there is not enough.
  void reserve(std::size_t size_bytes);

  /// The tensor's rows in the file's layout. Throws Error when a plain type is at an address that is not aligned for it.
  const void* view(const GgufTensor& tensor);
  /// A copy of `packed_bytes`, written by `pack`.
  const void* repack(const GgufTensor& tensor, std::size_t packed_bytes, const Pack& pack);
  /// A copy of `size_bytes`, assembled from several tensors or from parts of one. `write` is called once with the address to
  /// write to, in host memory, 64-byte aligned.
  const void* assemble(std::span<const GgufTensor* const> tensors, std::size_t size_bytes,
                       const std::function<void(std::byte*)>& write);
  /// A vector (norm, bias) as f32. Throws Error for other types than F32, F16 and BF16.
  const float* floats(const GgufTensor& tensor);
  /// Numbers that are not in the file. On the CPU the result is the caller's own memory, which must outlive the store.
  const float* floats(std::span<const float> values) { return static_cast<const float*>(numbers(std::as_bytes(values))); }
  const std::int32_t* integers(std::span<const std::int32_t> values) {
    return static_cast<const std::int32_t*>(numbers(std::as_bytes(values)));
  }

  /// Waits for copies and frees memory that only loading needs. Throws Error when a copy has failed.
  void finish();

  /// The bytes of all copies that the store owns.
  [[nodiscard]] std::size_t owned_bytes() const { return owned_bytes_; }

  /// The memory that a copy of `size_bytes` takes.
  static std::size_t copy_bytes(std::size_t size_bytes);

 private:
  const void* numbers(std::span<const std::byte> values);
  std::byte* allocate(std::size_t size_bytes);
  [[nodiscard]] const void* in_file(const GgufTensor& tensor) const;
  /// Host memory for the largest copy so far, 64-byte aligned.
  std::byte* staging(std::size_t size_bytes);
  /// The same, zeroed.
  std::byte* zeroed_staging(std::size_t size_bytes);
  void upload(void* to, const void* from, std::size_t size_bytes) { device_->upload(to, from, size_bytes, pool_); }

  struct FreeStaging {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{64}); }
  };

  const GgufFile* file_;
  Device* device_;
  ThreadPool* pool_;
  std::vector<DeviceBuffer> chunks_;
  std::size_t chunk_used_ = 0;  ///< used bytes of the last chunk
  std::size_t owned_bytes_ = 0;
  std::unordered_map<const void*, const void*> uploaded_;  ///< copies on a GPU, by the address in the file
  std::unique_ptr<std::byte, FreeStaging> staging_;
  std::size_t staging_bytes_ = 0;
};

}  // namespace rocmforge
