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
  if (is_kv_quant(dtype)) {
    check(values.size() % kv_quant_dims == 0, "quants come in whole groups");
    const KvLayout layout{.dtype = dtype, .block_tokens = 1, .kv_heads = 1, .head_dim = kv_quant_dims};
    std::vector<std::byte> bytes(layout.head_bytes());
    const KvHead head{&layout, dtype, KvOrder::token_major, bytes.data()};
    for (std::size_t first = 0; first < values.size(); first += kv_quant_dims) {
      head.store(0, values.data() + first);
      for (std::int32_t i = 0; i < kv_quant_dims; ++i) {
        values[first + static_cast<std::size_t>(i)] = head.load(0, i);
      }
    }
    return;
  }
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

PagedSequences::PagedSequences(std::span<const std::int32_t> kv_lens, const KvTypes& types, std::int32_t kv_heads,
                               std::int32_t head_dim, Random& random, float deviation) {
  for (const std::int32_t length : kv_lens) {
    const std::int64_t count = std::int64_t{length} * kv_heads * head_dim;
    k.push_back(random.normals(count, deviation));
    v.push_back(random.normals(count));
    round_all(types.k, k.back());
    round_all(types.v, v.back());
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

KvHead PagedCache::head_of(bool value, std::int64_t block, std::int32_t head) const {
  const bool own_plane = value && !layout_.is_latent();
  std::byte* data = const_cast<std::byte*>(bytes_.bytes().data());
  return {&layout_, layout_.dtype.of(own_plane), own_plane ? layout_.v_order : layout_.k_order,
          data + static_cast<std::size_t>(block) * layout_.block_bytes() + layout_.head_at(value, head)};
}

float PagedCache::read(bool value, std::size_t s, std::int32_t position, std::int32_t head, std::int32_t dim) const {
  const std::int32_t block = blocks_[s][static_cast<std::size_t>(position / layout_.block_tokens)];
  return head_of(value, block, head).load(position % layout_.block_tokens, dim);
}

float PagedCache::k(std::size_t s, std::int32_t position, std::int32_t head, std::int32_t dim) const {
  return read(false, s, position, head, dim);
}

float PagedCache::v(std::size_t s, std::int32_t position, std::int32_t head, std::int32_t dim) const {
  return read(true, s, position, head, dim);
}

void PagedCache::write(const PagedSequences& sequences, std::size_t s, std::int32_t begin, std::int32_t end) {
  for (std::int32_t position = begin; position < end; ++position) {
    const std::int32_t block = blocks_[s][static_cast<std::size_t>(position / layout_.block_tokens)];
    const std::int32_t slot = position % layout_.block_tokens;
    for (std::int32_t head = 0; head < layout_.kv_heads; ++head) {
      const std::int64_t from = (std::int64_t{position} * layout_.kv_heads + head) * layout_.head_dim;
      head_of(false, block, head).store(slot, sequences.k[s].data() + from);
      if (!layout_.is_latent()) {
        head_of(true, block, head).store(slot, sequences.v[s].data() + from);
      }
    }
  }
}

std::int64_t PagedCache::written_elements() const {
  std::int64_t count = 0;
  for (std::int64_t block = 0; block < num_blocks_; ++block) {
    for (std::int32_t i = 0; i < layout_.kv_heads * layout_.block_tokens * layout_.head_dim; ++i) {
      const std::int32_t dim = i % layout_.head_dim;
      const std::int32_t token = i / layout_.head_dim % layout_.block_tokens;
      const std::int32_t head = i / layout_.head_dim / layout_.block_tokens;
      count += std::isnan(head_of(false, block, head).load(token, dim)) ? 0 : 1;
      count += layout_.is_latent() || std::isnan(head_of(true, block, head).load(token, dim)) ? 0 : 1;
    }
  }
  return count;
}

BatchPlan make_batch(std::span<const SequenceShape> shapes, const PagedCache& cache, std::span<const SpanOfRows> spans) {
  BatchPlan batch;
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(shapes[s].q_len), 1);
    const std::int32_t blocks = blocks_for(cache.layout(), shapes[s].kv_len);
    batch.add_sequence(tokens, shapes[s].kv_len - shapes[s].q_len, cache.blocks(s).first(static_cast<std::size_t>(blocks)),
                       true);
    for (const SpanOfRows& span : spans) {
      if (span.sequence == s) {
        batch.add_span(span.first, span.count);
      }
    }
  }
  batch.finish();
  return batch;
}

}  // namespace rocmforge::test
