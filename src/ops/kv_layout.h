#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ops/state_slots.h"
#include "tensor/dtype.h"

namespace rocmforge {

/// Order of the elements of one KV head inside one block.
enum class KvOrder {
  token_major,  ///< [block_tokens, head_dim]
  dim_major,    ///< [head_dim, block_tokens]
};

inline constexpr std::int32_t kv_quant_dims = 32;  ///< neighbouring dimensions that share a scale in a quantised type

/// Whether K or V of this type are codes under a scale: q8_0, q4_0, q4_1, q5_0, q5_1, iq4_nl.
constexpr bool is_kv_quant(DType type) {
  return type == DType::q8_0 || type == DType::q4_0 || type == DType::q4_1 || type == DType::q5_0 || type == DType::q5_1 ||
         type == DType::iq4_nl;
}

/// Whether K or V may have this type.
constexpr bool is_kv_type(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16 || is_kv_quant(type);
}

/// How K and V are stored. A single type stands for both; so a kernel that compares with one serves no pair of types, and
/// nothing rotated.
struct KvTypes {
  DType k = DType::f16;
  DType v = DType::f16;
  /// Heads are multiplied by the orthonormal Walsh-Hadamard matrix, in blocks of hadamard_dims, before they are quantised
  /// (QuaRot 2024): no element then stands out. RopeAppend turns Q with K, so that scores are the same; attention turns its
  /// output back.
  bool k_rotated = false;
  bool v_rotated = false;

  constexpr KvTypes() = default;
  constexpr KvTypes(DType both) : k(both), v(both) {}  // NOLINT: a single type is one of each
  constexpr KvTypes(DType of_k, DType of_v) : k(of_k), v(of_v) {}

  [[nodiscard]] constexpr DType of(bool value) const { return value ? v : k; }
  [[nodiscard]] constexpr bool is_quantised() const { return is_kv_quant(k) || is_kv_quant(v); }
  /// Whether neither is rotated and both have one type.
  [[nodiscard]] constexpr bool is_one() const { return k == v && !k_rotated && !v_rotated; }

  friend constexpr bool operator==(const KvTypes&, const KvTypes&) = default;
};

/// "F16", "Q8_0 and Q4_0" of K and V, "Q4_0 rotated".
std::string name(const KvTypes& types);

/// Bytes of `elems` elements of K and as many of V; of K alone in a latent plane.
inline std::size_t kv_row_bytes(const KvTypes& types, std::int64_t elems, bool is_latent = false) {
  return row_bytes(types.k, elems) + (is_latent ? 0 : row_bytes(types.v, elems));
}

/// Elements of a block of the Walsh-Hadamard matrix: the largest power of two that divides the head.
constexpr std::int32_t hadamard_dims(std::int32_t head_dim) { return head_dim & -head_dim; }

/// The layout in which an attention backend stores the KV cache. A block holds `block_tokens` positions of one layer:
/// first K as [kv_heads, (k_order)], then V as [kv_heads, (v_order)], each in its own type.
///
/// A latent plane (value_dim above 0) stores K alone: V is the first value_dim elements of each K, in K's order.
///
/// In a quantised type each 32 neighbouring dimensions of a position share a scale, and head_dim is a multiple of 32. A head
/// of K or V is several arrays, each [block_tokens, bytes of a position] or, when dim_major, [bytes of a position,
/// block_tokens]: codes, fifth bits, scales and minima, as far as the type has them. ops/kv_codes.h says what
/// they mean.
struct KvLayout {
  KvTypes dtype = DType::f16;
  std::int32_t block_tokens = 32;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  KvOrder k_order = KvOrder::token_major;
  KvOrder v_order = KvOrder::token_major;
  std::int32_t value_dim = 0;  ///< of a latent plane, at most head_dim; 0: V has a plane of its own, as wide as K's

  [[nodiscard]] bool is_latent() const { return value_dim > 0; }
  /// Of the K and V of all KV heads.
  [[nodiscard]] std::int64_t planes() const { return (is_latent() ? 1 : 2) * std::int64_t{kv_heads}; }
  /// The plane of a head's V among them; K's is the head's number.
  [[nodiscard]] std::int64_t v_plane(int kv_head) const { return is_latent() ? kv_head : kv_heads + kv_head; }
  [[nodiscard]] std::int64_t head_elems() const { return std::int64_t{block_tokens} * head_dim; }
  [[nodiscard]] std::int64_t block_elems() const { return planes() * head_elems(); }
  /// Of the K of one head in one block.
  [[nodiscard]] std::size_t head_bytes() const { return row_bytes(dtype.k, head_elems()); }
  [[nodiscard]] std::size_t value_head_bytes() const { return row_bytes(dtype.v, head_elems()); }
  /// From the start of a block to a head's K or, with `value`, V.
  [[nodiscard]] std::size_t head_at(bool value, int kv_head) const {
    const auto head = static_cast<std::size_t>(kv_head);
    const auto heads = static_cast<std::size_t>(kv_heads);
    return value && !is_latent() ? heads * head_bytes() + head * value_head_bytes() : head * head_bytes();
  }
  [[nodiscard]] std::size_t block_bytes() const {
    return static_cast<std::size_t>(kv_heads) * (head_bytes() + (is_latent() ? 0 : value_head_bytes()));
  }

  friend bool operator==(const KvLayout&, const KvLayout&) = default;
};

/// One layer's cache: blocks of KvLayout::block_elems elements, addressed by block id.
struct KvCacheView {
  void* data = nullptr;  ///< [num_blocks, block_elems]
  std::int64_t num_blocks = 0;
};

/// K and V as plain tensors [sequences, kv_len, kv_heads, head_dim] of one type, for callers without a paged cache. The
/// batch's block tables are not read. The `head_dim` elements of a head are contiguous.
struct DenseKv {
  const void* k = nullptr;
  const void* v = nullptr;
  std::int64_t sequence_stride = 0;  ///< elements
  std::int64_t token_stride = 0;
  std::int64_t head_stride = 0;
};

/// Time, row and column of a token (Qwen2-VL), and one more that files have room for.
inline constexpr std::int32_t max_position_axes = 4;

/// The ragged step as attention and RoPE see it. Arrays must be valid during the call.
/// Sequence s owns query rows [query_offsets[s], query_offsets[s + 1]); its row i is in cell kv_lengths[s] - q_len + i of
/// its cache, and cell c in block block_tables[s * max_blocks + c / block_tokens]. Cells count a sequence's tokens; the
/// positions, by which RoPE turns, are given apart. They are the cells in a text; the tokens of an image share some.
/// On a GPU the arrays are device addresses, copied there before the step's first kernel starts (a kernel that starts before
/// its predecessor has ended may read them, and K and V of earlier steps), and a batch may end in padding: sequences of KV
/// length 0, whose rows append nothing and attend to nothing (zeros).
struct RaggedBatch {
  std::int32_t num_sequences = 0;
  std::int32_t num_tokens = 0;
  const std::int32_t* query_offsets = nullptr;  ///< [num_sequences + 1]
  const std::int32_t* kv_lengths = nullptr;     ///< [num_sequences], this step's tokens included
  const std::int32_t* block_tables = nullptr;   ///< [num_sequences, max_blocks]
  std::int32_t max_blocks = 0;
  const std::int32_t* positions = nullptr;    ///< [num_tokens, position_axes]
  const std::int32_t* sequence_of = nullptr;  ///< [num_tokens], index of the token's sequence in this batch
  std::int32_t max_q_len = 0;                 ///< no sequence has more query rows
  std::int32_t max_kv_len = 0;                ///< no sequence is longer
  const StateSlots* states = nullptr;         ///< [num_sequences]; null in models without recurrent state
  /// Positions of a token, at most max_position_axes: 1, or several for multimodal RoPE (RopeAppend::Args::axes).
  std::int32_t position_axes = 1;
  /// [num_tokens]: a token sees its sequence's cells up to this one, its own included or further on. The tokens of an image
  /// that see each other share the end. It is at most the KV length and rises within a sequence. Null: each token sees up to
  /// its own cell.
  const std::int32_t* visible_end = nullptr;

  /// The cell of a token, whose sequence is `sequence`; below 0 in padding. For arrays in host memory.
  [[nodiscard]] std::int32_t cell(std::int32_t sequence, std::int32_t token) const {
    return kv_lengths[sequence] - query_offsets[sequence + 1] + token;
  }
};

}  // namespace rocmforge
