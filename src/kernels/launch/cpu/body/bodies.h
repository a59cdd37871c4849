#pragma once

#include <stdint.h>

#include "ops/kv_codes.h"

/// The interface between the scheduling of CPU kernels and their bodies, which are compiled once per instruction set. Only
/// plain structs and function pointers cross it.
namespace rocmforge {

enum class KvElement : int32_t { f32, f16, bf16, coded };

/// K or V as pages hold them.
struct KvStore {
  KvElement element;
  KvCoding coding;  ///< of coded elements
};

/// Where a token's K or V goes.
struct KvTarget {
  KvStore store;
  uint8_t* head;       ///< KV head 0 in the token's block
  int64_t head_bytes;  ///< from one KV head to the next
  int32_t slot;        ///< of the token in the block
  int32_t block_tokens;
  bool by_dim;   ///< dim_major, else token_major
  bool rotated;  ///< by the Walsh-Hadamard matrix: KvTypes
};

/// Rotation of one token's heads and the place of its K and V in the cache.
struct RopeToken {
  float* q;        ///< [q_heads, head_dim], rotated in place
  const float* k;  ///< [kv_heads, head_dim]
  const float* v;  ///< [kv_heads, head_dim]
  int32_t q_heads;
  int32_t kv_heads;
  int32_t head_dim;     ///< at most max_rope_head_dim
  const float* q_norm;  ///< [head_dim] or null
  const float* k_norm;  ///< [head_dim] or null
  const float* v_norm;  ///< [head_dim] or null
  float norm_eps;
  bool norm_after_turn;  ///< else before
  bool adjacent;         ///< pairs (2p, 2p + 1), else (p, p + pairs)
  int32_t pairs;         ///< 0 for no rotation
  float q_factor;        ///< of Q, last
  const float* cosine;   ///< [pairs], magnitude included
  const float* sine;     ///< [pairs]
  KvTarget k_to;         ///< rotates Q too
  KvTarget v_to;
};

constexpr int32_t max_rope_head_dim = 512;

/// Keys are taken in chunks at fixed positions: chunk c holds [attention_chunk * c, attention_chunk * (c + 1)).
constexpr int32_t attention_chunk = 128;
/// Query rows (query heads of one KV head, for one or more tokens) that are computed together.
constexpr int32_t max_unit_rows = 64;

/// One KV head of one sequence for a tile of query rows: row r is query r / group of the sequence and head r % group of the
/// group.
struct AttentionUnit {
  const float* q;  ///< the sequence's first query, the group's first head; queries `q_stride` apart
  int64_t q_stride;
  float* out;  ///< likewise, `out_stride` apart
  int64_t out_stride;
  int32_t row_begin;
  int32_t row_end;         ///< at most max_unit_rows after row_begin
  int32_t first_position;  ///< of the sequence's query 0
  int32_t group;
  int32_t head_dim;   ///< any: rows of V that end within a vector are copied, with zeros behind them
  int32_t value_dim;  ///< elements of V and of the output
  bool latent;        ///< V is the first value_dim elements of K, which lies as [block_tokens, head_dim]
  int32_t window;     ///< keys at position - window and before are hidden; 0: none
  bool chunked;       ///< those before the position's own multiple of window, too
  int32_t ahead;      ///< keys behind position + ahead are hidden
  int32_t kv_len;
  const int32_t* visible_end;  ///< [queries], the cells that each sees end there; null: by `ahead`
  float scale;
  float soft_cap;
  const float* sinks;  ///< [group] or null
  KvStore k;
  KvStore v;
  bool v_rotated;
  const uint8_t* cache;
  const int32_t* blocks;  ///< the sequence's block table
  int32_t block_tokens;
  int64_t block_bytes;
  int64_t k_offset;  ///< bytes to this KV head's K in a block, [head_dim, block_tokens]
  int64_t v_offset;  ///< to its V, [block_tokens, head_dim]
};

/// Row `row` sees the cells [first_visible, end_visible) of its sequence.
constexpr int32_t first_visible(const AttentionUnit& unit, int32_t row) {
  const int32_t position = unit.first_position + row / unit.group;
  if (unit.window == 0 || position < 0) {
    return 0;
  }
  const int32_t first = unit.chunked ? position - position % unit.window : position - unit.window + 1;
  return first < 0 ? 0 : first;
}
constexpr int32_t end_visible(const AttentionUnit& unit, int32_t row) {
  const int32_t query = row / unit.group;
  if (unit.visible_end != nullptr) {
    return unit.visible_end[query];
  }
  const int32_t last = unit.first_position + query + unit.ahead;
  return last < unit.kv_len ? last + 1 : unit.kv_len;
}

/// Softmax of some keys for the rows of a unit, not yet divided: out = sums / weight once all keys are in.
struct AttentionState {
  float* largest;  ///< [rows], -infinity while a row has seen no key
  float* weight;   ///< [rows], sum of exp(score - largest)
  float* sums;     ///< [rows, padded value_dim], sum of exp(score - largest) * v
};

/// A thread's memory for attention. Rows of queries are padded_head_dim(head_dim) apart, those of sums
/// padded_head_dim(value_dim).
struct AttentionScratch {
  float* queries;  ///< [max_unit_rows, padded head_dim], scaled
  float* scores;   ///< [max_unit_rows, attention_score_stride]
  float* keys;     ///< [head_dim, attention_score_stride], a chunk of K as floats
  float* values;   ///< [attention_chunk, padded head_dim + 16], a chunk of V, or of a latent plane, as floats
};

/// One cache line more than the chunk, so that columns don't fall into the same set of a cache.
constexpr int32_t attention_score_stride = attention_chunk + 16;

constexpr int32_t padded_head_dim(int32_t head_dim) { return (head_dim + 15) / 16 * 16; }

/// One row of a head of the scan of Mamba-2 (ops/ssm_scan.h), before its gate.
struct SsmScanHead {
  float* state;    ///< [head_dim, state_size], changed in place
  const float* x;  ///< [head_dim]
  const float* b;  ///< [state_size]
  const float* c;  ///< [state_size]
  float decay;     ///< of the state
  float step;      ///< multiplies x on its way into the state
  float skip;      ///< multiplies x beside it
  float* out;      ///< [head_dim], not x
  int32_t head_dim;
  int32_t state_size;
};

/// One row of some channels of the scan of Mamba (ops/selective_scan.h), before its gate.
struct SelectiveScanRow {
  float* state;       ///< [channels, state_size], changed in place
  const float* x;     ///< [channels]
  const float* step;  ///< [channels]
  const float* a;     ///< [channels, state_size]
  const float* b;     ///< [state_size]
  const float* c;     ///< [state_size]
  const float* skip;  ///< [channels], multiplies x beside the state
  float* out;         ///< [channels], not x
  int32_t channels;
  int32_t state_size;
};

/// One row of a gated delta net for some columns of a value head's state.
struct DeltaNetRow {
  int32_t key_dim;
  int32_t value_dim;  ///< columns
  float norm_eps;
  float decay;
  float* decays;  ///< [3 * key_dim]: of each element of a key, and memory; null: `decay` is that of all
  float share;
  const float* q;  ///< [key_dim], as k not yet normalised
  const float* k;
  const float* v;  ///< [value_dim]
  float* unit_q;   ///< [key_dim], memory for the normalised
  float* unit_k;
  float* state;  ///< [value_dim, key_dim]
  float* out;    ///< [value_dim]
};

struct OutputGateHead {
  enum class Form { sigmoid, silu, plain };

  int32_t dim;
  Form form;
  float eps;
  const float* x;
  const float* gate;
  const float* weight;  ///< of the norm, or null
  float* out;
};

struct BodyTable {
  void (*exponential)(const float* x, int64_t count, float* out);  ///< what softmax and the activations use
  void (*rms_norm)(const float* x, const float* weight, int64_t dim, float eps, float* out);
  void (*silu_gate)(const float* gate, const float* up, int64_t width, float* out);
  void (*gelu_tanh_gate)(const float* gate, const float* up, int64_t width, float* out);
  void (*gelu_gate)(const float* gate, const float* up, int64_t width, float* out);
  void (*gelu_quick_gate)(const float* gate, const float* up, int64_t width, float* out);
  void (*clamped_swiglu_gate)(const float* gate, const float* up, int64_t width, float* out);
  void (*relu_squared)(const float* gate, const float* up, int64_t width, float* out);  ///< without a gate: null

  void (*ssm_scan_row)(const SsmScanHead& head);
  void (*selective_scan_row)(const SelectiveScanRow& row);
  void (*delta_net_row)(const DeltaNetRow& row);
  void (*output_gate_head)(const OutputGateHead& head);

  /// cos and sin of position * inverse_frequency[p], times `magnitude`.
  void (*rope_angles)(const float* inverse_frequency, int32_t pairs, float position, float magnitude, float* cosine,
                      float* sine);
  void (*rope_append)(const RopeToken& token);

  /// Scales the unit's queries into the scratch memory.
  void (*attention_load)(const AttentionUnit& unit, const AttentionScratch& scratch);
  /// A row's state before any key: empty, or with the attention sink. Rows are counted from the unit's first.
  void (*attention_begin)(const AttentionUnit& unit, int32_t row, const AttentionState& state);
  /// The softmax of one chunk alone.
  void (*attention_chunk)(const AttentionUnit& unit, const AttentionScratch& scratch, int32_t chunk,
                          const AttentionState& part);
  /// Adds a chunk to a row's state. Chunks are added in rising order: that order is part of the result.
  void (*attention_fold)(const AttentionUnit& unit, int32_t row, const AttentionState& state, const AttentionState& part);
  void (*attention_finish)(const AttentionUnit& unit, int32_t row, const AttentionState& state);
};

#define ROCMFORGE_DECLARE_BODY_TABLE(isa) \
  namespace isa {                         \
  extern const BodyTable body_table;      \
  }
ROCMFORGE_DECLARE_BODY_TABLE(generic)
ROCMFORGE_DECLARE_BODY_TABLE(neon)
ROCMFORGE_DECLARE_BODY_TABLE(avx2)
ROCMFORGE_DECLARE_BODY_TABLE(avx512)
#undef ROCMFORGE_DECLARE_BODY_TABLE

}  // namespace rocmforge
