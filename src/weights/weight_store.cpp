#include "weights/weight_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "weights/gguf_value.h"

namespace rocmforge {
namespace {

/// Every copy starts at a multiple of this, as GPUs require of an allocation.
constexpr std::size_t alignment = 256;
/// Small weights share a chunk, so that they share its huge pages. On the CPU a chunk takes address space, and memory only
/// for pages that are written.
constexpr std::size_t chunk_bytes = std::size_t{64} << 20;

/// The alignment that reading a type needs. Plain types are read through pointers of their own type; block formats are read
/// byte by byte.
std::size_t natural_alignment(DType type) {
  const DTypeInfo& format = info(type);
  return format.block_elems == 1 ? static_cast<std::size_t>(format.block_bytes) : 1;
}

}  // namespace

std::size_t WeightStore::copy_bytes(std::size_t size_bytes) { return (size_bytes + alignment - 1) / alignment * alignment; }

void WeightStore::reserve(std::size_t size_bytes) {
  if (size_bytes > 0) {
    chunks_.push_back(device_->allocate(size_bytes, "the weights"));
    chunk_used_ = 0;
  }
}

const void* WeightStore::in_file(const GgufTensor& tensor) const {
  const std::size_t needed = natural_alignment(tensor.tensor.dtype);
  if (reinterpret_cast<std::uintptr_t>(tensor.tensor.data) % needed != 0) {
    throw Error(fmt::format("{}: tensor {} lies at offset {}, {} needs a multiple of {}", file_->path().string(),
                            quote(tensor.name), tensor.file_offset, name(tensor.tensor.dtype), needed));
  }
  return tensor.tensor.data;
}

const void* WeightStore::view(const GgufTensor& tensor) {
  const void* rows = in_file(tensor);
  if (!device_->is_gpu()) {
    return rows;
  }
  const auto [found, added] = uploaded_.try_emplace(rows, nullptr);
  if (added) {
    std::byte* copy = allocate(tensor.tensor.bytes());
    upload(copy, rows, tensor.tensor.bytes());
    file_->release(tensor);
    found->second = copy;
  }
  return found->second;
}

const void* WeightStore::repack(const GgufTensor& tensor, std::size_t packed_bytes, const Pack& pack) {
  const GgufTensor* const tensors[] = {&tensor};
  return assemble(tensors, packed_bytes, [&](std::byte* packed) { pack(tensor.tensor.data, packed); });
}

const void* WeightStore::assemble(std::span<const GgufTensor* const> tensors, std::size_t size_bytes,
                                  const std::function<void(std::byte*)>& write) {
  for (const GgufTensor* tensor : tensors) {
    static_cast<void>(in_file(*tensor));
  }
  std::byte* copy = allocate(size_bytes);
  if (device_->is_gpu()) {
    std::byte* staged = zeroed_staging(size_bytes);
    write(staged);
    upload(copy, staged, size_bytes);
  } else {
    write(copy);
  }
  for (const GgufTensor* tensor : tensors) {
    file_->release(*tensor);
  }
  return copy;
}

const float* WeightStore::floats(const GgufTensor& tensor) {
  const void* data = in_file(tensor);
  const DType type = tensor.tensor.dtype;
  const auto count = static_cast<std::size_t>(tensor.tensor.shape.elems());
  if (type == DType::f32) {
    return floats(std::span(static_cast<const float*>(data), count));
  }
  if (type != DType::f16 && type != DType::bf16) {
    throw Error(fmt::format("{}: tensor {} is {}, a vector must be F32, F16 or BF16", file_->path().string(),
                            quote(tensor.name), name(type)));
  }
  std::byte* copy = allocate(count * sizeof(float));
  auto* values = reinterpret_cast<float*>(device_->is_gpu() ? staging(count * sizeof(float)) : copy);
  const auto* bits = static_cast<const std::uint16_t*>(data);
  std::transform(bits, bits + count, values, type == DType::f16 ? half_to_float : bfloat16_to_float);
  if (device_->is_gpu()) {
    upload(copy, values, count * sizeof(float));
  }
  return reinterpret_cast<const float*>(copy);
}

const void* WeightStore::numbers(std::span<const std::byte> values) {
  if (!device_->is_gpu()) {
    return values.data();
  }
  const auto [found, added] = uploaded_.try_emplace(values.data(), nullptr);
  if (added) {
    std::byte* copy = allocate(values.size_bytes());
    upload(copy, values.data(), values.size_bytes());
    found->second = copy;
  }
  return found->second;
}

void WeightStore::finish() {
  staging_.reset();
  staging_bytes_ = 0;
  device_->finish_uploads();
}

std::byte* WeightStore::allocate(std::size_t size_bytes) {
  check(size_bytes > 0, "an empty weight needs no memory");
  const std::size_t rounded = copy_bytes(size_bytes);
  if (chunks_.empty() || chunks_.back().size_bytes() - chunk_used_ < rounded) {
    chunks_.push_back(device_->allocate(std::max(rounded, chunk_bytes), "the weights"));
    chunk_used_ = 0;
  }
  std::byte* start = chunks_.back().data() + chunk_used_;
  chunk_used_ += rounded;
  owned_bytes_ += rounded;
  return start;
}

std::byte* WeightStore::staging(std::size_t size_bytes) {
  if (staging_bytes_ < size_bytes) {
    staging_.reset();
    staging_.reset(static_cast<std::byte*>(::operator new (size_bytes, std::align_val_t{64})));
    staging_bytes_ = size_bytes;
  }
  return staging_.get();
}

std::byte* WeightStore::zeroed_staging(std::size_t size_bytes) {
  constexpr std::int64_t piece_bytes = std::int64_t{1} << 20;
  std::byte* start = staging(size_bytes);
  const auto zero = [&](std::int64_t begin, std::int64_t end) {
    std::memset(start + begin, 0, static_cast<std::size_t>(end - begin));
  };
  const auto count = static_cast<std::int64_t>(size_bytes);
  pool_ == nullptr ? zero(0, count) : pool_->parallel_for(count, piece_bytes, zero);
  return start;
}

}  // namespace rocmforge
