#include "weights/weight_store.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/half.h"
#include "weights/gguf_value.h"

namespace rocmforge {
namespace {

constexpr std::size_t alignment = 64;
/// Address space, not memory: small weights share a chunk and so its huge pages.
constexpr std::size_t chunk_bytes = std::size_t{64} << 20;

/// Plain types are read through pointers of their own type; block formats are read byte by byte.
std::size_t natural_alignment(DType type) {
  const DTypeInfo& format = info(type);
  return format.block_elems == 1 ? static_cast<std::size_t>(format.block_bytes) : 1;
}

}  // namespace

HostMemory::HostMemory(std::size_t size_bytes) : size_bytes_(size_bytes) {
  if (size_bytes == 0) {
    return;
  }
  void* memory = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(fmt::format("no memory for {} bytes: {}", size_bytes, std::strerror(errno)));
  }
  data_ = static_cast<std::byte*>(memory);
#ifdef MADV_HUGEPAGE
  madvise(memory, size_bytes, MADV_HUGEPAGE);  // a hint: systems without huge pages refuse it, and lose nothing but speed
#endif
}

HostMemory::~HostMemory() {
  if (data_ != nullptr) {
    munmap(data_, size_bytes_);
  }
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

const void* WeightStore::view(const GgufTensor& tensor) const {
  const std::size_t needed = natural_alignment(tensor.tensor.dtype);
  if (reinterpret_cast<std::uintptr_t>(tensor.tensor.data) % needed != 0) {
    throw Error(fmt::format("{}: tensor {} lies at offset {}, {} needs a multiple of {}", file_->path().string(),
                            quote(tensor.name), tensor.file_offset, name(tensor.tensor.dtype), needed));
  }
  return tensor.tensor.data;
}

const void* WeightStore::repack(const GgufTensor& tensor, std::size_t packed_bytes, const Pack& pack) {
  std::byte* packed = allocate(packed_bytes);
  pack(view(tensor), packed);
  file_->release(tensor);
  return packed;
}

const float* WeightStore::floats(const GgufTensor& tensor) {
  const void* data = view(tensor);
  const DType type = tensor.tensor.dtype;
  if (type == DType::f32) {
    return static_cast<const float*>(data);
  }
  if (type != DType::f16 && type != DType::bf16) {
    throw Error(fmt::format("{}: tensor {} is {}, a vector must be F32, F16 or BF16", file_->path().string(),
                            quote(tensor.name), name(type)));
  }
  const auto count = static_cast<std::size_t>(tensor.tensor.shape.elems());
  const auto* bits = static_cast<const std::uint16_t*>(data);
  auto* values = reinterpret_cast<float*>(allocate(count * sizeof(float)));
  std::transform(bits, bits + count, values, type == DType::f16 ? half_to_float : bfloat16_to_float);
  return values;
}

std::byte* WeightStore::allocate(std::size_t size_bytes) {
  check(size_bytes > 0, "an empty weight needs no memory");
  const std::size_t rounded = (size_bytes + alignment - 1) / alignment * alignment;
  if (chunks_.empty() || chunks_.back().size_bytes() - chunk_used_ < rounded) {
    chunks_.emplace_back(std::max(rounded, chunk_bytes));
    chunk_used_ = 0;
  }
  std::byte* start = chunks_.back().data() + chunk_used_;
  chunk_used_ += rounded;
  owned_bytes_ += rounded;
  return start;
}

}  // namespace rocmforge
