#include "kv/kv_cache.h"

#include <fmt/format.h>

#include <cstring>
#include <string_view>

#include "base/error.h"

namespace rocmforge {

namespace {
double gibibytes(long double bytes) { return static_cast<double>(bytes / (1024.0L * 1024.0L * 1024.0L)); }
}  // namespace

KvCache::KvCache(Device& device, const KvLayout& layout, std::int32_t num_layers, std::int32_t num_blocks)
    : device_(&device), layout_(layout), num_layers_(num_layers), num_blocks_(num_blocks) {
  check(num_layers >= 0 && num_blocks > 0, "a cache has at least one block");
  if (num_layers == 0) {
    return;
  }
  check(
      layout.dtype == DType::f32 || layout.dtype == DType::f16 || layout.dtype == DType::bf16 || layout.dtype == DType::q8_0,
      "a cache holds f32, f16, bf16 or q8_0");
  check(layout.block_tokens > 0 && layout.kv_heads > 0 && layout.head_dim > 0, "the cache's layout is empty");

  const std::size_t block_bytes = layout.block_bytes();
  const auto fail = [&](std::string_view reason) {
    const long double total = static_cast<long double>(block_bytes) * num_layers * num_blocks;
    throw Error(
        fmt::format("the KV cache for {} tokens needs {:.2f} GiB ({} layers, {} blocks of {} tokens, {} bytes each): {}",
                    std::int64_t{num_blocks} * layout.block_tokens, gibibytes(total), num_layers, num_blocks,
                    layout.block_tokens, block_bytes, reason));
  };
  std::size_t per_layer = 0;
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(block_bytes, static_cast<std::size_t>(num_blocks), &per_layer) ||
      __builtin_mul_overflow(per_layer, static_cast<std::size_t>(num_layers), &bytes)) {
    fail("more than the address space");
  }
  try {
    memory_ = device.allocate(bytes, "the KV cache");
  } catch (const Error& error) {
    fail(error.what());
  }
}

KvCacheView KvCache::layer(std::int32_t index) const {
  check(index >= 0 && index < num_layers_, "the cache has no such layer");
  const std::size_t layer_bytes = layout_.block_bytes() * static_cast<std::size_t>(num_blocks_);
  return {memory_.data() + layer_bytes * static_cast<std::size_t>(index), num_blocks_};
}

void KvCache::copy_block(std::int32_t from, std::int32_t to) {
  check(from >= 0 && from < num_blocks_ && to >= 0 && to < num_blocks_, "the cache has no such block");
  if (from == to) {
    return;
  }
  const std::size_t block_bytes = layout_.block_bytes();
  for (std::int32_t index = 0; index < num_layers_; ++index) {
    auto* blocks = static_cast<std::byte*>(layer(index).data);
    std::byte* target = blocks + block_bytes * static_cast<std::size_t>(to);
    const std::byte* source = blocks + block_bytes * static_cast<std::size_t>(from);
    if (device_->is_gpu()) {
      device_->stream().copy_on_device(target, source, block_bytes);
    } else {
      std::memcpy(target, source, block_bytes);
    }
  }
}

}  // namespace rocmforge
