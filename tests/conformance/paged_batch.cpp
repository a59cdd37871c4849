#include "conformance/paged_batch.h"

#include <algorithm>

#include "base/error.h"
#include "base/half.h"

namespace rocmforge::test {
namespace {

std::int32_t blocks_for(const KvLayout& layout, std::int32_t positions) {
  return (positions + layout.block_tokens - 1) / layout.block_tokens;
}

std::vector<std::vector<std::int32_t>> shuffled_blocks(const KvLayout& layout, std::span<const std::int32_t> kv_lens,
                                                       std::uint64_t seed) {
  std::int32_t total = 0;
  for (const std::int32_t length : kv_lens) {
    total += blocks_for(layout, length);
  }
  Random random(seed);
  const std::vector<std::int32_t> order = random.permutation(total);
  std::vector<std::vector<std::int32_t>> blocks;
  auto next = order.begin();
  for (const std::int32_t length : kv_lens) {
    blocks.emplace_back(next, next + blocks_for(layout, length));
    next += blocks_for(layout, length);
  }
  return blocks;
}

std::int64_t pool_size(const std::vector<std::vector<std::int32_t>>& blocks) {
  std::int32_t largest = -1;
  for (const auto& sequence : blocks) {
    for (const std::int32_t block : sequence) {
      largest = std::max(largest, block);
    }
  }
  return largest + 1;
}

}  // namespace

float round_to(DType dtype, float value) {
  switch (dtype) {
    case DType::f16:
      return half_to_float(float_to_half(value));
    case DType::bf16:
      return bfloat16_to_float(float_to_bfloat16(value));
    default:
      return value;
  }
}

void round_all(DType dtype, std::span<float> values) {
  for (float& value : values) {
    value = round_to(dtype, value);
  }
}

std::vector<std::byte> to_bytes(DType dtype, std::span<const float> values) {
  std::vector<std::byte> bytes(row_bytes(dtype, static_cast<std::int64_t>(values.size())));
  if (dtype == DType::f32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits = dtype == DType::f16 ? float_to_half(values[i]) : float_to_bfloat16(values[i]);
    std::memcpy(bytes.data() + 2 * i, &bits, 2);
  }
  return bytes;
}

std::vector<float> to_floats(DType dtype, std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / (dtype == DType::f32 ? 4 : 2));
  if (dtype == DType::f32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    values[i] = dtype == DType::f16 ? half_to_float(bits) : bfloat16_to_float(bits);
  }
  return values;
}

PagedSequences::PagedSequences(std::span<const std::int32_t> kv_lens, DType dtype, std::int32_t kv_heads,
                               std::int32_t head_dim, Random& random, float deviation) {
  for (const std::int32_t length : kv_lens) {
    const std::int64_t count = std::int64_t{length} * kv_heads * head_dim;
    k.push_back(random.normals(count, deviation));
    v.push_back(random.normals(count));
    round_all(dtype, k.back());
    round_all(dtype, v.back());
  }
}

PagedCache::PagedCache(const KvLayout& layout, std::span<const std::int32_t> kv_lens, std::uint64_t seed)
    : PagedCache(layout, shuffled_blocks(layout, kv_lens, seed)) {}

PagedCache::PagedCache(const KvLayout& layout, std::vector<std::vector<std::int32_t>> blocks)
    : layout_(layout),
      blocks_(std::move(blocks)),
      num_blocks_(pool_size(blocks_)),
      bytes_(layout.block_bytes() * static_cast<std::size_t>(num_blocks_)) {}

void PagedCache::choose_sequences(std::span<const std::size_t> of) {
  std::vector<std::vector<std::int32_t>> chosen;
  for (const std::size_t s : of) {
    chosen.push_back(blocks_[s]);
  }
  blocks_ = std::move(chosen);
}

void PagedCache::assign(std::span<const std::byte> bytes) {
  check(bytes.size() == bytes_.bytes().size(), "the size of a cache can't change");
  std::copy(bytes.begin(), bytes.end(), bytes_.data());
}

std::int64_t PagedCache::element(bool value, std::size_t s, std::int32_t position, std::int32_t head,
                                 std::int32_t dim) const {
  const std::int64_t block = blocks_[s][static_cast<std::size_t>(position / layout_.block_tokens)];
  const std::int64_t token = position % layout_.block_tokens;
  const KvOrder order = value ? layout_.v_order : layout_.k_order;
  const std::int64_t within =
      order == KvOrder::token_major ? token * layout_.head_dim + dim : std::int64_t{dim} * layout_.block_tokens + token;
  const std::int64_t half_block = std::int64_t{layout_.kv_heads} * layout_.block_tokens * layout_.head_dim;
  return block * 2 * half_block + (value ? half_block : 0) + head * std::int64_t{layout_.block_tokens} * layout_.head_dim +
         within;
}

float PagedCache::read(std::int64_t index) const {
  const std::byte* data = bytes_.bytes().data();
  if (layout_.dtype == DType::f32) {
    float value;
    std::memcpy(&value, data + index * 4, 4);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, data + index * 2, 2);
  return layout_.dtype == DType::f16 ? half_to_float(bits) : bfloat16_to_float(bits);
}

float PagedCache::k(std::size_t s, std::int32_t position, std::int32_t head, std::int32_t dim) const {
  return read(element(false, s, position, head, dim));
}

float PagedCache::v(std::size_t s, std::int32_t position, std::int32_t head, std::int32_t dim) const {
  return read(element(true, s, position, head, dim));
}

void PagedCache::write(const PagedSequences& sequences, std::size_t s, std::int32_t begin, std::int32_t end) {
  const auto put = [this](std::int64_t index, float value) {
    if (layout_.dtype == DType::f32) {
      std::memcpy(bytes_.data() + index * 4, &value, 4);
    } else {
      const std::uint16_t bits = layout_.dtype == DType::f16 ? float_to_half(value) : float_to_bfloat16(value);
      std::memcpy(bytes_.data() + index * 2, &bits, 2);
    }
  };
  for (std::int32_t position = begin; position < end; ++position) {
    for (std::int32_t head = 0; head < layout_.kv_heads; ++head) {
      for (std::int32_t dim = 0; dim < layout_.head_dim; ++dim) {
        const auto from =
            static_cast<std::size_t>((std::int64_t{position} * layout_.kv_heads + head) * layout_.head_dim + dim);
        put(element(false, s, position, head, dim), sequences.k[s][from]);
        put(element(true, s, position, head, dim), sequences.v[s][from]);
      }
    }
  }
}

std::int64_t PagedCache::written_elements() const {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < num_blocks_ * layout_.block_elems(); ++i) {
    count += std::isnan(read(i)) ? 0 : 1;
  }
  return count;
}

BatchPlan make_batch(std::span<const SequenceShape> shapes, const PagedCache& cache) {
  BatchPlan batch;
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(shapes[s].q_len), 1);
    const std::int32_t blocks = blocks_for(cache.layout(), shapes[s].kv_len);
    batch.add_sequence(tokens, shapes[s].kv_len - shapes[s].q_len, cache.blocks(s).first(static_cast<std::size_t>(blocks)),
                       true);
  }
  batch.finish();
  return batch;
}

}  // namespace rocmforge::test
