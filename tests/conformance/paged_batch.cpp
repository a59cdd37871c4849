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

/// 32 values as KvLayout stores them in q8_0: quants and their scale.
struct Quants {
  std::int8_t values[kv_quant_dims];
  std::uint16_t scale_bits;

  explicit Quants(const float* from) {
    float largest = 0.0f;
    for (int i = 0; i < kv_quant_dims; ++i) {
      largest = std::max(largest, std::abs(from[i]));
    }
    scale_bits = float_to_half(largest * (1.0f / 127.0f));
    for (int i = 0; i < kv_quant_dims; ++i) {
      const float quant = scale() > 0.0f ? std::nearbyint(from[i] / scale()) : 0.0f;
      values[i] = static_cast<std::int8_t>(std::clamp(quant, -127.0f, 127.0f));
    }
  }
  [[nodiscard]] float scale() const { return half_to_float(scale_bits); }
};

void round_all(DType dtype, std::span<float> values) {
  if (dtype == DType::q8_0) {
    check(values.size() % kv_quant_dims == 0, "quants come in whole groups");
    for (std::size_t first = 0; first < values.size(); first += kv_quant_dims) {
      const Quants quants(values.data() + first);
      for (std::size_t i = 0; i < kv_quant_dims; ++i) {
        values[first + i] = static_cast<float>(quants.values[i]) * quants.scale();
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

PagedCache::Place PagedCache::place(bool value, std::int64_t block, std::int64_t token, std::int32_t head,
                                    std::int32_t dim) const {
  const bool own_plane = value && !layout_.is_latent();
  const bool by_token = (own_plane ? layout_.v_order : layout_.k_order) == KvOrder::token_major;
  const std::int64_t heads_before = block * layout_.planes() + (own_plane ? layout_.kv_heads : 0) + head;
  const auto start = heads_before * static_cast<std::int64_t>(layout_.head_bytes());
  const std::int64_t element = by_token ? token * layout_.head_dim + dim : std::int64_t{dim} * layout_.block_tokens + token;
  if (layout_.dtype != DType::q8_0) {
    return {start + element * static_cast<std::int64_t>(row_bytes(layout_.dtype, 1)), 0};
  }
  const std::int64_t group = dim / kv_quant_dims;
  const std::int64_t scale =
      by_token ? token * (layout_.head_dim / kv_quant_dims) + group : group * layout_.block_tokens + token;
  return {start + element, start + std::int64_t{layout_.block_tokens} * layout_.head_dim + 2 * scale};
}

PagedCache::Place PagedCache::place_of(bool value, std::size_t s, std::int32_t position, std::int32_t head,
                                       std::int32_t dim) const {
  return place(value, blocks_[s][static_cast<std::size_t>(position / layout_.block_tokens)], position % layout_.block_tokens,
               head, dim);
}

float PagedCache::read(const Place& place) const {
  const std::byte* data = bytes_.bytes().data();
  const auto bits_at = [data](std::int64_t offset) {
    std::uint16_t bits;
    std::memcpy(&bits, data + offset, 2);
    return bits;
  };
  switch (layout_.dtype) {
    case DType::f32: {
      float value;
      std::memcpy(&value, data + place.value, 4);
      return value;
    }
    case DType::f16:
      return half_to_float(bits_at(place.value));
    case DType::bf16:
      return bfloat16_to_float(bits_at(place.value));
    default:
      return static_cast<float>(static_cast<std::int8_t>(data[place.value])) * half_to_float(bits_at(place.scale));
  }
}

float PagedCache::k(std::size_t s, std::int32_t position, std::int32_t head, std::int32_t dim) const {
  return read(place_of(false, s, position, head, dim));
}

float PagedCache::v(std::size_t s, std::int32_t position, std::int32_t head, std::int32_t dim) const {
  return read(place_of(true, s, position, head, dim));
}

void PagedCache::put(const Place& place, const float* values, std::int32_t dim) {
  if (layout_.dtype == DType::q8_0) {
    const Quants quants(values + dim / kv_quant_dims * kv_quant_dims);
    bytes_.data()[place.value] = static_cast<std::byte>(quants.values[dim % kv_quant_dims]);
    std::memcpy(bytes_.data() + place.scale, &quants.scale_bits, 2);
  } else {
    const std::vector<std::byte> bytes = to_bytes(layout_.dtype, {values + dim, 1});
    std::copy(bytes.begin(), bytes.end(), bytes_.data() + place.value);
  }
}

void PagedCache::write(const PagedSequences& sequences, std::size_t s, std::int32_t begin, std::int32_t end) {
  for (std::int32_t position = begin; position < end; ++position) {
    for (std::int32_t head = 0; head < layout_.kv_heads; ++head) {
      const std::int64_t from = (std::int64_t{position} * layout_.kv_heads + head) * layout_.head_dim;
      for (std::int32_t dim = 0; dim < layout_.head_dim; ++dim) {
        put(place_of(false, s, position, head, dim), sequences.k[s].data() + from, dim);
        if (!layout_.is_latent()) {
          put(place_of(true, s, position, head, dim), sequences.v[s].data() + from, dim);
        }
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
      count += std::isnan(read(place(false, block, token, head, dim))) ? 0 : 1;
      count += layout_.is_latent() || std::isnan(read(place(true, block, token, head, dim))) ? 0 : 1;
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
