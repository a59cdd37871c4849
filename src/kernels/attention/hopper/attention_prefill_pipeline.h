#pragma once

// The pipeline of attention_prefill.cu: its configurations, its rings, and the arrivals that complete a phase of each
// barrier. The kernel, the host that launches it and the test that walks the protocol share these numbers.
// docs/kernels/hopper_protocols.md tells why they are enough.

#include <cstdint>

namespace rocmforge::hopper::prefill {

inline constexpr int rows_per_consumer = 64;  ///< query rows of a consumer warpgroup
inline constexpr int stages = 2;              ///< tiles of K in shared memory, and of V
inline constexpr int q_loaders = 96;          ///< threads that load q: three warps of the first warpgroup

/// The kernel for head_dims up to `padded`: elements of a row in shared memory, keys of a tile, consumer warpgroups, and
/// tiles of q in shared memory. Consumers have 64 rows each, or share 64 rows: then each computes all weights of these rows,
/// and its part of the columns of V.
struct Variant {
  int padded;
  int keys;
  int consumers;
  int q_stages;
  bool shared_rows = false;

  [[nodiscard]] constexpr int q_parts() const { return shared_rows ? 1 : consumers; }
  [[nodiscard]] constexpr int rows() const { return q_parts() * rows_per_consumer; }  ///< of a tile of q

  /// Descriptors of tiles of q, in a ring. The loader writes the descriptor of tile w + q_stages + 1 once q of tile w is
  /// free. A consumer frees q of tile w at w's last tile of keys, which may be its first, and then still reads the
  /// descriptor of tile w - 1, whose sums it stores: so the descriptors of w - 1 to w + q_stages + 1 are in use.
  [[nodiscard]] constexpr int work_slots() const { return q_stages + 3; }

  // Arrivals that complete a phase.
  static constexpr int work_full_arrivals = 1;       ///< the thread that takes tiles of q
  static constexpr int q_full_arrivals = q_loaders;  ///< or one thread and the bytes of a bulk copy: q_bulk_arrivals
  static constexpr int kv_full_arrivals = 1;         ///< the thread that copies, and the bytes
  /// The consumers alone. The thread that copies K and V has read the tile's descriptor when they arrive: they free q after
  /// the last tile of keys, which that thread copies after it has read the descriptor. If it arrived too, it could do so for
  /// tile w + q_stages before the consumers have for tile w, and end the phase early.
  [[nodiscard]] constexpr int q_free_arrivals() const { return consumers; }
  [[nodiscard]] constexpr int kv_free_arrivals() const { return consumers; }

  [[nodiscard]] constexpr int barriers() const { return work_slots() + 2 * q_stages + 4 * stages; }
};

inline constexpr Variant variants[] = {{64, 128, 3, 2}, {128, 128, 2, 2}, {256, 80, 2, 1}, {512, 32, 2, 1, true}};

constexpr const Variant& variant_of(std::int32_t head_dim) {
  for (const Variant& variant : variants) {
    if (head_dim <= variant.padded) {
      return variant;
    }
  }
  return variants[3];
}

/// One tile of query rows of one head. The last one of a work-group is empty: it ends before it begins.
struct WorkNumbers {
  int sequence;
  int head;
  int q_begin;  ///< first row, in the sequence
  int q_len;
  int first_row;  ///< of the sequence, in the batch
  int kv_len;
  int tile_begin;  ///< key tiles [begin, end) hold keys that some row sees
  int tile_end;
  int seen_begin;  ///< every row sees every key of the tiles [begin, end)
  int seen_end;
};

/// Bytes of q, K and V of the stages, 1,024-byte aligned, then descriptors and barriers.
constexpr int shared_bytes(const Variant& variant) {
  const int tiles = (variant.q_stages * variant.rows() + 2 * stages * variant.keys) * variant.padded * 2;
  const int rest = variant.work_slots() * static_cast<int>(sizeof(WorkNumbers)) + variant.barriers() * 8;
  return tiles + (rest + 1023) / 1024 * 1024;
}

}  // namespace rocmforge::hopper::prefill
