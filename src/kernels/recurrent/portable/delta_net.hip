// The gated delta rule. Columns of a state are independent, so a work-group takes 32 columns of one value head through all
// rows of a sequence, with the state in registers: 8 lanes hold the keys of a column. Rows are staged in shared memory,
// where q and k are normalised once for all columns. A step of one row is bound by reading and writing the states, a prompt
// by the dependent chain from row to row: two sums over 8 lanes, which do not wait for each other.
// docs/kernels/delta_net.md.

#include "kernels/recurrent/portable/chunk_scan_args.h"
#include "kernels/recurrent/portable/delta_net_args.h"
#include "kernels/tile/activation.h"
#include "kernels/tile/elementwise.h"

namespace rocmforge::gpu {
namespace {

constexpr int columns = delta_net_columns;
constexpr int most_keys = delta_net_key_dim;
constexpr int lanes = delta_net_threads / columns;  ///< for one column
constexpr int fours = most_keys / lanes / 4;        ///< of each lane: four c * lanes + lane of the column
constexpr int staging_lanes = 32;                   ///< for one row

/// The decays of a row: one, or one for each element of a key. In shared memory there is room for fewer rows of those.
template <bool of_keys>
struct Decays {
  float all[32];
};
template <>
struct Decays<true> {
  alignas(16) float all[16][most_keys];
};

template <bool of_keys>
struct Staged {
  static constexpr int staged_rows = of_keys ? 16 : 32;
  alignas(16) float q[staged_rows][most_keys];
  alignas(16) float k[staged_rows][most_keys];
  float v[staged_rows][columns];
  Decays<of_keys> decays;
  float share[staged_rows];
  float overlap[staged_rows];  ///< k q
};

__device__ inline float decay_of(float rate, float x, float floor) {
  if (floor < 0.0f) {
    return expf(floor / (1.0f + expf(-rate * x)));
  }
  const float softplus = x > 20.0f ? x : log1pf(expf(x));
  return expf(rate * softplus);
}

/// What a work-group computes.
template <bool of_keys>
struct Piece {
  const DeltaNetArgs& args;
  int head;
  int key_head;
  int first_column;

  __device__ explicit Piece(const DeltaNetArgs& from) : args(from) {
    const int pieces = (args.value_dim + columns - 1) / columns;
    head = static_cast<int>(blockIdx.x) / pieces;
    first_column = static_cast<int>(blockIdx.x) % pieces * columns;
    key_head = args.tiled ? head % args.key_heads : head / (args.value_heads / args.key_heads);
  }

  __device__ float* column_of(std::int32_t slot, int column) const {
    return reinterpret_cast<float*>(args.states + slot * args.slot_stride) +
           (std::int64_t{head} * args.value_dim + first_column + column) * args.key_dim;
  }

  /// One row, by staging_lanes threads.
  __device__ void stage_keys(Staged<of_keys>& staged, int row, std::int64_t token) const {
    const int lane = thread_index() % staging_lanes;
    // Read together with the keys: their sums do not wait for these.
    const float* alpha = args.alpha + token * args.gate_stride + std::int64_t{head} * (of_keys ? args.key_dim : 1);
    const float* bias = args.step_bias + head * (of_keys ? args.key_dim : 1);
    const float first_alpha = alpha[0];
    const float beta = args.beta[token * args.gate_stride + head];
    const float* q = args.qkv + token * args.qkv_stride + std::int64_t{key_head} * args.key_dim;
    const float* k = q + std::int64_t{args.key_heads} * args.key_dim;
    constexpr int each = most_keys / staging_lanes;
    float own_q[each];
    float own_k[each];
    float squares_q = 0.0f;
    float squares_k = 0.0f;
    float products = 0.0f;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int key = i * staging_lanes + lane;
      own_q[i] = key < args.key_dim ? q[key] : 0.0f;
      own_k[i] = key < args.key_dim ? k[key] : 0.0f;
      squares_q += own_q[i] * own_q[i];
      squares_k += own_k[i] * own_k[i];
      products += own_q[i] * own_k[i];
    }
    squares_q = wave_reduce<Sum, staging_lanes>(squares_q);
    squares_k = wave_reduce<Sum, staging_lanes>(squares_k);
    products = wave_reduce<Sum, staging_lanes>(products);
    const float scale_k = 1.0f / sqrtf(squares_k + GatedDeltaNet::norm_eps);
    const float scale_q = 1.0f / (sqrtf(squares_q + GatedDeltaNet::norm_eps) * sqrtf(static_cast<float>(args.key_dim)));
#pragma unroll
    for (int i = 0; i < each; ++i) {
      staged.q[row][i * staging_lanes + lane] = own_q[i] * scale_q;
      staged.k[row][i * staging_lanes + lane] = own_k[i] * scale_k;
      if constexpr (of_keys) {
        const int key = i * staging_lanes + lane;
        staged.decays.all[row][key] = key < args.key_dim ? decay_of(args.rate[head], alpha[key] + bias[key], args.decay_floor) : 0.0f;
      }
    }
    if (lane == 0) {
      if constexpr (!of_keys) {
        staged.decays.all[row] = decay_of(args.rate[head], first_alpha + bias[0], 0.0f);
      }
      staged.share[row] = 1.0f / (1.0f + expf(-beta));
      staged.overlap[row] = products * scale_k * scale_q;
    }
  }

  /// Rows from `token` on.
  __device__ void stage(Staged<of_keys>& staged, std::int64_t token, int rows) const {
    constexpr int at_once = delta_net_threads / staging_lanes;
    const int first_of_wave = thread_index() / wave_size * (wave_size / staging_lanes);
    for (int first = 0; first + first_of_wave < rows; first += at_once) {
      // Whole waves go on together: lanes without a row stage the last one again.
      const int own = first + thread_index() / staging_lanes;
      const int row = own < rows ? own : rows - 1;
      stage_keys(staged, row, token + row);
    }
    const std::int64_t values = 2 * std::int64_t{args.key_heads} * args.key_dim + std::int64_t{head} * args.value_dim;
    // The last waves begin, which have no keys of a single row.
    for (int i = delta_net_threads - 1 - thread_index(); i < rows * columns; i += delta_net_threads) {
      const int column = first_column + i % columns;
      staged.v[i / columns][i % columns] =
          column < args.value_dim ? args.qkv[(token + i / columns) * args.qkv_stride + values + column] : 0.0f;
    }
  }
};

/// A lane's part of a column.
struct Column {
  Floats<4> state[fours];

  /// Zeros from key_dim on.
  __device__ void load_from(const float* column, int key_dim, int lane) {
#pragma unroll
    for (int c = 0; c < fours; ++c) {
      const int four = c * lanes + lane;
      state[c] = 4 * four < key_dim ? load<4>(column, four) : Floats<4>{};
    }
  }

  __device__ void store_to(float* column, int key_dim, int lane) const {
#pragma unroll
    for (int c = 0; c < fours; ++c) {
      const int four = c * lanes + lane;
      if (4 * four < key_dim) {
        store(column, four, state[c]);
      }
    }
  }

  /// Decays of single keys are applied to S first.
  template <bool of_keys>
  __device__ void decay_keys(const Staged<of_keys>& staged, int row, int lane) {
    if constexpr (of_keys) {
#pragma unroll
      for (int c = 0; c < fours; ++c) {
        const Floats<4> decays = load<4>(staged.decays.all[row], c * lanes + lane);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          state[c].values[i] *= decays.values[i];
        }
      }
    }
  }

  /// The column's output. S q is computed before S changes, so that both sums need one exchange between the lanes.
  template <bool of_keys>
  __device__ float step(const Staged<of_keys>& staged, int row, int column, int lane) {
    Floats<4> k[fours];
    decay_keys(staged, row, lane);
    float recalled[4] = {};
    float asked[4] = {};
#pragma unroll
    for (int c = 0; c < fours; ++c) {
      k[c] = load<4>(staged.k[row], c * lanes + lane);
      const Floats<4> q = load<4>(staged.q[row], c * lanes + lane);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        recalled[i] += state[c].values[i] * k[c].values[i];
        asked[i] += state[c].values[i] * q.values[i];
      }
    }
    float decay = 1.0f;
    if constexpr (!of_keys) {
      decay = staged.decays.all[row];
    }
    const float all_recalled = wave_reduce<Sum, lanes>((recalled[0] + recalled[1]) + (recalled[2] + recalled[3]));
    const float all_asked = wave_reduce<Sum, lanes>((asked[0] + asked[1]) + (asked[2] + asked[3]));
    const float change = staged.share[row] * (staged.v[row][column] - decay * all_recalled);
#pragma unroll
    for (int c = 0; c < fours; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        state[c].values[i] = decay * state[c].values[i] + change * k[c].values[i];
      }
    }
    return decay * all_asked + change * staged.overlap[row];
  }
};

/// A sequence's rows and slots.
struct Rows {
  StateSlots slots;
  std::int64_t first;
  int count;  ///< 0: scanned in chunks, or behind the last sequence

  __device__ Rows(const DeltaNetArgs& args, std::int32_t sequence, bool chunks) : slots{-1, -1, -1, 0}, first(0), count(0) {
    if (sequence < args.sequences) {
      slots = args.slots[sequence];
      first = args.query_offsets[sequence];
      const int rows = static_cast<int>(args.query_offsets[sequence + 1] - first);
      count = rows < chunk_least_rows || !chunks ? rows : 0;
    }
  }
};

template <bool of_keys>
__device__ inline void scan(const DeltaNetArgs& args) {
  constexpr int staged_rows = Staged<of_keys>::staged_rows;
  __shared__ Staged<of_keys> staged;
  release_successor();
  const Piece<of_keys> piece(args);
  const int column = thread_index() / lanes;
  const int lane = thread_index() % lanes;
  const bool inside = piece.first_column + column < args.value_dim;
  Column own;
  const auto load = [&](const Rows& rows) {
    const bool used = inside && rows.count > 0 && rows.slots.read >= 0;
    own.load_from(piece.column_of(max(rows.slots.read, 0), column), used ? args.key_dim : 0, lane);
  };
  // The arrays of a step and the states of earlier steps are read before the predecessor has ended.
  Rows now(args, static_cast<std::int32_t>(blockIdx.y), !of_keys);
  load(now);
  wait_for_predecessor();
  for (std::int32_t sequence = blockIdx.y; sequence < args.sequences; sequence += gridDim.y) {
    if (sequence != static_cast<std::int32_t>(blockIdx.y)) {
      now = Rows(args, sequence, !of_keys);
      load(now);
    }
    const auto [slots, first, rows] = now;
    if (rows == 0) {
      continue;
    }
    for (int base = 0; base < rows; base += staged_rows) {
      const int count = rows - base < staged_rows ? rows - base : staged_rows;
      __syncthreads();
      piece.stage(staged, first + base, count);
      __syncthreads();
      for (int row = 0; row < count; ++row) {
        const float out = own.step(staged, row, column, lane);
        if (lane == 0 && inside) {
          args.out[(first + base + row) * args.out_stride + std::int64_t{piece.head} * args.value_dim + piece.first_column +
                   column] = out;
        }
        if (inside && slots.keep >= 0 && base + row + 1 == slots.keep_rows) {
          own.store_to(piece.column_of(slots.keep, column), args.key_dim, lane);
        }
      }
    }
    if (inside && slots.write >= 0) {
      own.store_to(piece.column_of(slots.write, column), args.key_dim, lane);
    }
  }
}

}  // namespace

ROCMFORGE_KERNEL __launch_bounds__(delta_net_threads) gated_delta_net(DeltaNetArgs args) { scan<false>(args); }

ROCMFORGE_KERNEL __launch_bounds__(delta_net_threads) delta_net_key_decays(DeltaNetArgs args) { scan<true>(args); }

namespace {

__device__ inline float opening(OutputGate::Gate gate, float x) {
  switch (gate) {
    case OutputGate::Gate::sigmoid:
      return 1.0f / (1.0f + expf(-x));
    case OutputGate::Gate::silu:
      return Silu::value(x);
    case OutputGate::Gate::softplus:
      return x > 20.0f ? x : log1pf(expf(x));
    case OutputGate::Gate::plain:
      break;
  }
  return x;
}

}  // namespace

ROCMFORGE_KERNEL output_gate(OutputGateArgs args) {
  begin_dependent();
  const int lane = thread_index() % output_gate_lanes;
  const std::int64_t at_once = blockDim.x / output_gate_lanes;
  const std::int64_t width = std::int64_t{args.heads} * args.dim;
  for (std::int64_t token = blockIdx.y; token < args.tokens; token += gridDim.y) {
    for (std::int64_t first = blockIdx.x * at_once; first < args.heads; first += gridDim.x * at_once) {
      const std::int64_t head = first + thread_index() / output_gate_lanes;
      const int dim = head < args.heads ? args.dim : 0;  // whole waves go on together
      const float* x = args.x + token * args.x_stride + head * args.dim;
      const float* gate = args.gate + token * args.gate_stride + head * (args.of_heads ? 1 : args.dim);
      float* out = args.out + token * width + head * args.dim;
      // The first elements of a lane are read together and kept; longer heads read the others twice.
      constexpr int kept = 4;
      float values[kept];
      float gates[kept];
      float weights[kept];
#pragma unroll
      for (int c = 0; c < kept; ++c) {
        const int i = lane + c * output_gate_lanes;
        values[c] = i < dim ? x[i] : 0.0f;
        gates[c] = i < dim ? gate[args.of_heads ? 0 : i] : 0.0f;
        weights[c] = i < dim && args.weight != nullptr ? args.weight[i] : 1.0f;
      }
      float scale = 1.0f;
      if (args.weight != nullptr) {
        float squares = 0.0f;
#pragma unroll
        for (int c = 0; c < kept; ++c) {
          squares += values[c] * values[c];
        }
        for (int i = lane + kept * output_gate_lanes; i < dim; i += output_gate_lanes) {
          squares += x[i] * x[i];
        }
        scale = 1.0f / sqrtf(wave_reduce<Sum, output_gate_lanes>(squares) / static_cast<float>(args.dim) + args.eps);
      }
      const auto gated = [&](float value, float weight, float of_gate) {
        return value * scale * weight * opening(args.form, of_gate);
      };
#pragma unroll
      for (int c = 0; c < kept; ++c) {
        if (const int i = lane + c * output_gate_lanes; i < dim) {
          out[i] = gated(values[c], weights[c], gates[c]);
        }
      }
      for (int i = lane + kept * output_gate_lanes; i < dim; i += output_gate_lanes) {
        out[i] = gated(x[i], args.weight != nullptr ? args.weight[i] : 1.0f, gate[args.of_heads ? 0 : i]);
      }
    }
  }
}

}  // namespace rocmforge::gpu
