#pragma once

#include <span>
#include <vector>

#include "checks/model_shapes.h"
#include "conformance/inputs.h"
#include "kernels/formats/reference/kv_element.h"
#include "ops/batch_plan.h"
#include "ops/kv_layout.h"

namespace rocmforge::test {

/// K and V of some sequences as plain floats, already rounded to the cache's type, from which a cache of any layout is
/// filled.
struct PagedSequences {
  PagedSequences() = default;
  /// `kv_lens` gives each sequence's full length.
  PagedSequences(std::span<const std::int32_t> kv_lens, const KvTypes& types, std::int32_t kv_heads, std::int32_t head_dim,
                 Random& random, float deviation = 1.0f);

  /// One sequence's [kv_len, kv_heads, head_dim].
  std::vector<std::vector<float>> k;
  std::vector<std::vector<float>> v;
};

/// The block ids of each sequence: in random order over one pool, or as given.
class PagedCache {
 public:
  PagedCache(const KvLayout& layout, std::span<const std::int32_t> kv_lens, std::uint64_t seed);
  PagedCache(const KvLayout& layout, std::vector<std::vector<std::int32_t>> blocks);

  /// Stores positions [begin, end) of sequence `s`; everything else stays NaN.
  void write(const PagedSequences& sequences, std::size_t s, std::int32_t begin, std::int32_t end);
  [[nodiscard]] float k(std::size_t s, std::int32_t position, std::int32_t head, std::int32_t dim) const;
  [[nodiscard]] float v(std::size_t s, std::int32_t position, std::int32_t head, std::int32_t dim) const;

  [[nodiscard]] KvCacheView view() { return {bytes_.data(), num_blocks_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_.bytes(); }
  /// Makes sequence i the former sequence of[i]; one may become several.
  void choose_sequences(std::span<const std::size_t> of);
  /// Replaces the content with the result of a kernel that ran in other memory.
  void assign(std::span<const std::byte> bytes);
  [[nodiscard]] std::span<const std::int32_t> blocks(std::size_t s) const { return blocks_[s]; }
  [[nodiscard]] const KvLayout& layout() const { return layout_; }
  /// Elements that aren't NaN.
  [[nodiscard]] std::int64_t written_elements() const;

 private:
  [[nodiscard]] KvHead head_of(bool value, std::int64_t block, std::int32_t head) const;
  [[nodiscard]] float read(bool value, std::size_t s, std::int32_t position, std::int32_t head, std::int32_t dim) const;

  KvLayout layout_;
  std::vector<std::vector<std::int32_t>> blocks_;
  std::int64_t num_blocks_ = 0;
  PoisonedBytes bytes_;
};

/// Rows [first, first + count) of a sequence's part of a step, which see each other: BatchPlan::add_span.
struct SpanOfRows {
  std::size_t sequence = 0;
  std::int32_t first = 0;
  std::int32_t count = 0;
};

/// The step in which each sequence's last `q_len` of `kv_len` positions are queries.
BatchPlan make_batch(std::span<const SequenceShape> shapes, const PagedCache& cache, std::span<const SpanOfRows> spans = {});

/// K and V rotated before they are quantised.
constexpr KvTypes rotated(KvTypes types) {
  types.k_rotated = true;
  types.v_rotated = true;
  return types;
}

float round_to(DType dtype, float value);
/// In quantised types whole groups of kv_quant_dims values.
void round_all(DType dtype, std::span<float> values);
/// Elements of an f32, f16 or bf16 tensor as they are stored.
std::vector<std::byte> to_bytes(DType dtype, std::span<const float> values);
std::vector<float> to_floats(DType dtype, std::span<const std::byte> bytes);

}  // namespace rocmforge::test
