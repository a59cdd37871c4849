#include "checks/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/half.h"
#include "ops/kv_coding.h"

namespace rocmforge {
namespace {

/// Blocks of bytes, each drawn from a pool.
std::vector<std::byte> drawn_from(const std::vector<std::byte>& pool, std::size_t block_bytes, std::int64_t count,
                                  Random& random) {
  const auto pool_count = static_cast<std::int32_t>(pool.size() / block_bytes);
  std::vector<std::byte> bytes(block_bytes * static_cast<std::size_t>(count));
  for (std::size_t at = 0; at < bytes.size(); at += block_bytes) {
    const auto from = static_cast<std::size_t>(random.below(pool_count)) * block_bytes;
    std::memcpy(bytes.data() + at, pool.data() + from, block_bytes);
  }
  return bytes;
}

constexpr std::int32_t pool_numbers = 1'000'003;  // a prime, so that no two rows of a tensor are equal

/// Normal numbers of a plain type.
std::vector<std::byte> drawn_pool(DType type) {
  Random random(13);
  return random_rows(type, 1, pool_numbers, random);
}

/// Drawn once a process for each type. Null for types with blocks.
const std::vector<std::byte>* pool_of(DType type) {
  if (type == DType::f32) {
    static const std::vector<std::byte> pool = drawn_pool(type);
    return &pool;
  }
  if (type == DType::f16) {
    static const std::vector<std::byte> pool = drawn_pool(type);
    return &pool;
  }
  if (type == DType::bf16) {
    static const std::vector<std::byte> pool = drawn_pool(type);
    return &pool;
  }
  return nullptr;
}

/// `size_bytes` of a pool from a random element on, which is read again and again.
std::vector<std::byte> part_of(const std::vector<std::byte>& pool, std::size_t size_bytes, Random& random) {
  std::vector<std::byte> bytes(size_bytes);
  std::size_t from = static_cast<std::size_t>(random.below(pool_numbers)) * (pool.size() / std::size_t{pool_numbers});
  for (std::size_t at = 0; at < size_bytes;) {
    const std::size_t run = std::min(size_bytes - at, pool.size() - from);
    std::memcpy(bytes.data() + at, pool.data() + from, run);
    at += run;
    from = 0;
  }
  return bytes;
}

/// low + scale * pool[i], for `count` numbers from place `first` of the pool on, which is read again and again.
std::vector<float> scaled_part(const std::vector<float>& pool, std::int32_t first, std::int64_t count, float low,
                               float scale) {
  std::vector<float> values(static_cast<std::size_t>(count));
  auto from = static_cast<std::size_t>(first);
  for (float& value : values) {
    value = low + scale * pool[from];
    from = from + 1 == pool.size() ? 0 : from + 1;
  }
  return values;
}

}  // namespace

std::vector<float> PooledRandom::normals(std::int64_t count, float deviation) {
  static const std::vector<float> pool = Random(11).normals(pool_numbers);
  return scaled_part(pool, below(pool_numbers), count, 0.0f, deviation);
}

std::vector<float> PooledRandom::uniforms(std::int64_t count, float low, float high) {
  static const std::vector<float> pool = Random(12).uniforms(pool_numbers, 0.0f, 1.0f);
  return scaled_part(pool, below(pool_numbers), count, low, high - low);
}

std::vector<std::byte> random_weight(DType type, std::int64_t rows, std::int64_t cols, Random& random) {
  if (const std::vector<std::byte>* const pool = pool_of(type)) {
    return part_of(*pool, row_bytes(type, cols) * static_cast<std::size_t>(rows), random);
  }
  constexpr std::int64_t pool_rows = 61;
  if (rows <= pool_rows) {
    return random_rows(type, rows, cols, random);
  }
  return drawn_from(random_rows(type, pool_rows, cols, random), row_bytes(type, cols), rows, random);
}

std::string tokens_text(std::int64_t tokens) { return fmt::format("{} token{}", tokens, tokens == 1 ? "" : "s"); }

namespace {

/// `most`, and those of `counts` that are less.
std::vector<std::int64_t> up_to(std::int64_t most, std::vector<std::int64_t> counts) {
  const std::int64_t largest = std::max<std::int64_t>(most, 1);
  std::erase_if(counts, [largest](std::int64_t count) { return count >= largest; });
  counts.push_back(largest);
  return counts;
}

}  // namespace

std::vector<std::int64_t> token_counts(std::int64_t most) { return up_to(most, {1, 3, 8, 17, 64, 129, 2048}); }

std::vector<std::int64_t> few_token_counts(std::int64_t most) { return up_to(most, {1, 3, 17, 129, 2048}); }

std::vector<std::int64_t> expert_token_counts(std::int64_t most) { return up_to(most, {1, 3, 9, 17, 129, 2048}); }

std::vector<std::int64_t> least_token_counts(std::int64_t most) { return up_to(most, {1, 17}); }

BatchArrays::BatchArrays(CallArrays& arrays, BatchPlan plan) : plan_(std::make_shared<const BatchPlan>(std::move(plan))) {
  query_offsets_ = arrays.input("query_offsets", plan_->query_offsets);
  kv_lengths_ = arrays.input("kv_lengths", plan_->kv_lengths);
  block_tables_ = arrays.input("block_tables", plan_->block_tables);
  positions_ = arrays.input("positions", plan_->positions);
  sequence_of_ = arrays.input("sequence_of", plan_->sequence_of);
  if (!plan_->visible_end.empty()) {
    visible_end_ = arrays.input("visible_end", plan_->visible_end);
  }
  if (!plan_->states.empty()) {
    states_ = arrays.input("state slots", plan_->states);
  }
}

RaggedBatch BatchArrays::at(const PlacedArrays& place) const {
  RaggedBatch batch = plan_->view();
  batch.query_offsets = place.at(query_offsets_);
  batch.kv_lengths = place.at(kv_lengths_);
  batch.block_tables = place.at(block_tables_);
  batch.positions = place.at(positions_);
  batch.sequence_of = place.at(sequence_of_);
  batch.visible_end = place.at(visible_end_);
  batch.states = place.at(states_);
  return batch;
}

namespace {

/// `kept`: the first blocks of each sequence that are block 0; the others have numbers in random order, `most` of them.
template <class Kept>
PagedStep step_with_blocks(std::span<const SequenceShape> sequences, std::int32_t block_tokens, std::int32_t first_block,
                           const Kept& kept, Random& random, std::int32_t most = std::numeric_limits<std::int32_t>::max()) {
  const auto blocks_of = [&](const SequenceShape& shape) { return (shape.kv_len + block_tokens - 1) / block_tokens; };
  std::int32_t own = 0;
  for (const SequenceShape& shape : sequences) {
    own += blocks_of(shape) - kept(shape);
  }
  const std::vector<std::int32_t> order = random.permutation(std::min(own, most));
  std::size_t taken = 0;
  PagedStep step;
  step.num_blocks = first_block + std::ssize(order);
  step.plan.clear();
  for (const SequenceShape& shape : sequences) {
    std::vector<std::int32_t> blocks(static_cast<std::size_t>(blocks_of(shape)), 0);
    for (std::int32_t i = kept(shape); i < blocks_of(shape); ++i) {
      blocks[static_cast<std::size_t>(i)] = first_block + order[taken++ % order.size()];
    }
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(shape.q_len), 1);
    step.plan.add_sequence(tokens, shape.kv_len - shape.q_len, blocks, true);
  }
  step.plan.finish();
  return step;
}

}  // namespace

PagedStep paged_step(std::span<const SequenceShape> sequences, std::int32_t block_tokens, Random& random,
                     std::int32_t most_blocks) {
  return step_with_blocks(
      sequences, block_tokens, 0, [](const SequenceShape&) { return 0; }, random, most_blocks);
}

PagedStep append_step(std::span<const SequenceShape> sequences, std::int32_t block_tokens, Random& random) {
  return step_with_blocks(
      sequences, block_tokens, 1, [&](const SequenceShape& shape) { return (shape.kv_len - shape.q_len) / block_tokens; },
      random);
}

namespace {

constexpr std::int64_t pool_heads = 61;

/// Heads of a block, scales and minima of quantised ones small.
std::vector<std::byte> random_heads(const KvLayout& layout, DType type, Random& random) {
  if (!is_kv_quant(type)) {
    return random_weight(type, pool_heads, layout.head_elems(), random);
  }
  const std::size_t head_bytes = row_bytes(type, layout.head_elems());
  const KvArrays arrays = kv_arrays(kv_coding(type), layout.block_tokens, layout.head_dim);
  std::vector<std::byte> heads(head_bytes * pool_heads);
  std::ranges::generate(heads, [&random] { return static_cast<std::byte>(random.bits()); });
  for (std::size_t head = 0; head < heads.size(); head += head_bytes) {
    for (auto at = static_cast<std::size_t>(arrays.scales); at < head_bytes; at += 2) {
      const std::uint16_t scale = float_to_half(random.uniform(0.005f, 0.02f));
      std::memcpy(heads.data() + head + at, &scale, sizeof scale);
    }
  }
  return heads;
}

/// The numbers of a head in the order of its elements.
void decode_head(const KvLayout& layout, bool value, std::span<const std::byte> head, std::vector<float>& values) {
  const DType type = layout.dtype.of(value);
  if (!is_kv_quant(type)) {
    const std::vector<float> plain = floats_of(type, head);
    values.insert(values.end(), plain.begin(), plain.end());
    return;
  }
  const KvCoding coding = kv_coding(type);
  const KvArrays arrays = kv_arrays(coding, layout.block_tokens, layout.head_dim);
  const bool token_major = (value ? layout.v_order : layout.k_order) == KvOrder::token_major;
  const auto byte_at = [&](std::int64_t at) { return std::to_integer<std::uint32_t>(head[static_cast<std::size_t>(at)]); };
  for (std::int64_t i = 0; i < layout.head_elems(); ++i) {
    const std::int64_t token = token_major ? i / layout.head_dim : i % layout.block_tokens;
    const std::int64_t dim = token_major ? i % layout.head_dim : i / layout.block_tokens;
    const auto place = [&](std::int64_t index, std::int64_t count) {
      return token_major ? token * count + index : index * layout.block_tokens + token;
    };
    const auto half_at = [&](std::int64_t array) {
      const std::int64_t at = array + 2 * place(dim / kv_quant_dims, arrays.groups);
      return half_to_float(static_cast<std::uint16_t>(byte_at(at) | byte_at(at + 1) << 8));
    };
    std::uint32_t code = byte_at(place(dim * coding.bits / 8, arrays.code_bytes));
    code = coding.bits == 4 ? code >> (dim % 2 * 4) & 15u : code;
    if (coding.fifth) {
      code |= (byte_at(arrays.fifths + place(dim / 8, arrays.fifth_bytes)) >> (dim % 8) & 1u) << 4;
    }
    const float scaled = half_at(arrays.scales) * static_cast<float>(kv_number(coding, code));
    values.push_back(coding.minimum ? scaled + half_at(arrays.minima) : scaled);
  }
}

}  // namespace

std::vector<std::byte> random_pages(const KvLayout& layout, std::int64_t num_blocks, Random& random) {
  if (layout.dtype.is_one() && !layout.dtype.is_quantised()) {
    return random_weight(layout.dtype.k, num_blocks * layout.planes(), layout.head_elems(), random);
  }
  const std::vector<std::byte> pools[] = {random_heads(layout, layout.dtype.k, random),
                                          random_heads(layout, layout.dtype.v, random)};
  std::vector<std::byte> pages(layout.block_bytes() * static_cast<std::size_t>(num_blocks));
  std::byte* to = pages.data();
  for (std::int64_t plane = 0; plane < num_blocks * layout.planes(); ++plane) {
    const bool value = plane % layout.planes() >= layout.kv_heads;
    const std::size_t bytes = value ? layout.value_head_bytes() : layout.head_bytes();
    std::memcpy(to, pools[value ? 1 : 0].data() + static_cast<std::size_t>(random.below(pool_heads)) * bytes, bytes);
    to += bytes;
  }
  return pages;
}

DecodeOutput decode_pages(const KvLayout& layout) {
  if (layout.dtype.is_one() && !layout.dtype.is_quantised()) {
    return [type = layout.dtype.k](std::span<const std::byte> bytes) { return floats_of(type, bytes); };
  }
  return [layout](std::span<const std::byte> bytes) {
    std::vector<float> values;
    for (std::int64_t plane = 0;; ++plane) {
      const bool value = plane % layout.planes() >= layout.kv_heads;
      const std::size_t head = value ? layout.value_head_bytes() : layout.head_bytes();
      if (bytes.size() < head) {
        return values;
      }
      decode_head(layout, value, bytes.first(head), values);
      bytes = bytes.subspan(head);
    }
  };
}

std::vector<float> rotary_frequencies(std::int32_t n_rot) {
  std::vector<float> values;
  for (std::int32_t p = 0; p < n_rot / 2; ++p) {
    values.push_back(static_cast<float>(std::pow(10000.0, -2.0 * p / n_rot)));
  }
  return values;
}

StateStep state_step(std::span<const std::int32_t> rows, std::int64_t elems, float deviation, PooledRandom& random) {
  StateStep step;
  step.plan.clear();
  for (std::size_t s = 0; s < rows.size(); ++s) {
    const std::int32_t before = s % 2 == 1 ? 5 : 0;
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows[s]), 0);
    const std::vector<std::int32_t> blocks(static_cast<std::size_t>(before + rows[s]), 0);
    step.plan.add_sequence(tokens, before, blocks, false);
    const bool keeps = rows[s] > 2;
    step.plan.states.push_back({.read = before > 0 ? step.num_slots : -1,
                                .write = step.num_slots + 1,
                                .keep = keeps ? step.num_slots + 2 : -1,
                                .keep_rows = keeps ? rows[s] / 2 : 0});
    step.num_slots += 3;
  }
  step.plan.finish();
  step.states = random.normals(step.num_slots * elems, deviation);
  return step;
}

StateView states_at(const PlacedArrays& place, Slot<float> states, const StateStep& step, std::int64_t elems) {
  return {reinterpret_cast<std::byte*>(place.at(states)), elems * std::int64_t{sizeof(float)}, step.num_slots};
}

std::vector<RowsOfSequences> rows_of_sequences(std::int64_t max_tokens) {
  std::vector<RowsOfSequences> all = {{"1 decode", {1}},
                                      {"2 decodes and a chunk of 5", {1, 5, 1}},
                                      {"12 decodes", std::vector<std::int32_t>(12, 1)},
                                      {"prompts of 17, 64 and 33", {17, 64, 33}},
                                      {"a prompt of 300 beside decodes", {1, 300, 1, 1}},
                                      {"a prompt of 2,048", {2048}}};
  std::erase_if(
      all, [max_tokens](const RowsOfSequences& one) { return sum_of(one.rows) > std::max<std::int64_t>(max_tokens, 1); });
  return all;
}

std::int64_t sum_of(std::span<const std::int32_t> values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

}  // namespace rocmforge
