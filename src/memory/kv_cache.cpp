#include "memory/kv_cache.h"

#include <fmt/format.h>

#include <cstring>
#include <string_view>

#include "base/error.h"

namespace rocmforge {

namespace {

double gibibytes(long double bytes) { return static_cast<double>(bytes / (1024.0L * 1024.0L * 1024.0L)); }

void check_planes(const std::vector<KvLayout>& planes) {
  for (const KvLayout& layout : planes) {
    for (const DType type : {layout.dtype.k, layout.dtype.v}) {
      check(is_kv_type(type), "a cache holds f32, f16, bf16 or a quantised type");
    }
    check(layout.block_tokens > 0 && layout.kv_heads > 0 && layout.head_dim > 0, "the cache's layout is empty");
    check(layout.block_tokens == planes.front().block_tokens, "a block has as many positions in every layer");
  }
}

}  // namespace

KvCache::KvCache(const Devices& devices, const KvGroup& group, std::int32_t num_blocks)
    : devices_(devices), group_(group), num_blocks_(num_blocks) {
  check(num_blocks > 0, "a cache has at least one block");
  check_planes(group_.planes);
  check(group_.sides.empty() || group_.sides.size() == group_.planes.size(), "each plane has a side");
  if (group_.planes.empty()) {
    return;
  }
  const auto fail = [&](std::string_view reason) {
    long double total = 0.0L;
    for (const KvLayout& layout : group_.planes) {
      total += static_cast<long double>(layout.block_bytes()) * num_blocks;
    }
    const std::int32_t block_tokens = group_.planes.front().block_tokens;
    throw Error(fmt::format("the KV cache for {} tokens needs {:.2f} GiB ({} layers, {} blocks of {} tokens): {}",
                            std::int64_t{num_blocks} * block_tokens, gibibytes(total), group_.planes.size(), num_blocks,
                            block_tokens, reason));
  };
  std::size_t bytes[2] = {};
  for (std::size_t plane = 0; plane < group_.planes.size(); ++plane) {
    std::size_t& used = bytes[static_cast<std::size_t>(group_.side_of(plane))];
    starts_.push_back(used);
    std::size_t plane_bytes = 0;
    if (__builtin_mul_overflow(group_.planes[plane].block_bytes(), static_cast<std::size_t>(num_blocks), &plane_bytes) ||
        __builtin_add_overflow(used, plane_bytes, &used)) {
      fail("more than the address space");
    }
  }
  try {
    for (const Side side : {Side::device, Side::host}) {
      const auto index = static_cast<std::size_t>(side);
      if (bytes[index] > 0) {
        memory_[index] = devices_.at(side).allocate(bytes[index], "the KV cache");
      }
    }
  } catch (const Error& error) {
    fail(error.what());
  }
}

KvCacheView KvCache::plane(std::int32_t index) const {
  check(index >= 0 && index < num_planes(), "the cache has no such plane");
  const auto plane = static_cast<std::size_t>(index);
  return {memory_[static_cast<std::size_t>(group_.side_of(plane))].data() + starts_[plane], num_blocks_};
}

std::byte* KvCache::block(std::size_t plane, std::int32_t index) const {
  check(index >= 0 && index < num_blocks_, "the cache has no such block");
  return memory_[static_cast<std::size_t>(group_.side_of(plane))].data() + starts_[plane] +
         group_.planes[plane].block_bytes() * static_cast<std::size_t>(index);
}

void KvCache::copy_block(std::int32_t from, std::int32_t to) {
  check(from >= 0 && from < num_blocks_ && to >= 0 && to < num_blocks_, "the cache has no such block");
  if (from == to) {
    return;
  }
  for (std::size_t plane = 0; plane < group_.planes.size(); ++plane) {
    const std::size_t bytes = group_.planes[plane].block_bytes();
    if (Device& device = devices_.at(group_.side_of(plane)); device.is_gpu()) {
      device.stream().copy_on_device(block(plane, to), block(plane, from), bytes);
    } else {
      std::memcpy(block(plane, to), block(plane, from), bytes);
    }
  }
}

void KvCache::save_block(std::int32_t from, std::byte* to) {
  for (std::size_t plane = 0; plane < group_.planes.size(); ++plane) {
    const std::size_t bytes = group_.planes[plane].block_bytes();
    if (Device& device = devices_.at(group_.side_of(plane)); device.is_gpu()) {
      device.stream().copy_to_host(to, block(plane, from), bytes);
    } else {
      std::memcpy(to, block(plane, from), bytes);
    }
    to += bytes;
  }
}

void KvCache::load_block(const std::byte* from, std::int32_t to) {
  for (std::size_t plane = 0; plane < group_.planes.size(); ++plane) {
    const std::size_t bytes = group_.planes[plane].block_bytes();
    if (Device& device = devices_.at(group_.side_of(plane)); device.is_gpu()) {
      device.stream().copy_to_device(block(plane, to), from, bytes);
    } else {
      std::memcpy(block(plane, to), from, bytes);
    }
    from += bytes;
  }
}

}  // namespace rocmforge
