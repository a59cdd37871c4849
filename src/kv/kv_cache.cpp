#include "kv/kv_cache.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace rocmforge {

namespace {
double gibibytes(long double bytes) { return static_cast<double>(bytes / (1024.0L * 1024.0L * 1024.0L)); }
}  // namespace

KvCache::KvCache(const KvLayout& layout, std::int32_t num_layers, std::int32_t num_blocks)
    : layout_(layout), num_layers_(num_layers), num_blocks_(num_blocks), bytes_(0) {
  check(num_layers > 0 && num_blocks > 0, "a cache has at least one layer and one block");
  check(layout.dtype == DType::f32 || layout.dtype == DType::f16 || layout.dtype == DType::bf16,
        "a cache holds f32, f16 or bf16");
  check(layout.block_tokens > 0 && layout.kv_heads > 0 && layout.head_dim > 0, "the cache's layout is empty");

  const std::size_t block_bytes = layout.block_bytes();
  const auto fail = [&](const char* reason) {
    const long double total = static_cast<long double>(block_bytes) * num_layers * num_blocks;
    throw Error(
        fmt::format("the KV cache for {} tokens needs {:.2f} GiB ({} layers, {} blocks of {} tokens, {} bytes each), "
                    "which can't be allocated: {}",
                    std::int64_t{num_blocks} * layout.block_tokens, gibibytes(total), num_layers, num_blocks,
                    layout.block_tokens, block_bytes, reason));
  };
  std::size_t per_layer = 0;
  if (__builtin_mul_overflow(block_bytes, static_cast<std::size_t>(num_blocks), &per_layer) ||
      __builtin_mul_overflow(per_layer, static_cast<std::size_t>(num_layers), &bytes_)) {
    fail("more than the address space");
  }
  // Pages of an anonymous mapping are zero and take memory only once they are written.
  void* address = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    fail(std::strerror(errno));
  }
  data_ = static_cast<std::byte*>(address);
}

KvCache::~KvCache() { ::munmap(data_, bytes_); }

KvCacheView KvCache::layer(std::int32_t index) const {
  check(index >= 0 && index < num_layers_, "the cache has no such layer");
  const std::size_t layer_bytes = layout_.block_bytes() * static_cast<std::size_t>(num_blocks_);
  return {data_ + layer_bytes * static_cast<std::size_t>(index), num_blocks_};
}

void KvCache::copy_block(std::int32_t from, std::int32_t to) {
  check(from >= 0 && from < num_blocks_ && to >= 0 && to < num_blocks_, "the cache has no such block");
  if (from == to) {
    return;
  }
  const std::size_t block_bytes = layout_.block_bytes();
  for (std::int32_t index = 0; index < num_layers_; ++index) {
    auto* blocks = static_cast<std::byte*>(layer(index).data);
    std::memcpy(blocks + block_bytes * static_cast<std::size_t>(to), blocks + block_bytes * static_cast<std::size_t>(from),
                block_bytes);
  }
}

}  // namespace rocmforge
