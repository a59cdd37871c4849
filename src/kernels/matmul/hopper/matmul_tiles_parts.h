#pragma once

// Shared by the kernels of matmul_tiles.h and matmul_few.h: places in rings, and the writing of outputs.

#include "kernels/matmul/hopper/gate_value.h"
#include "kernels/matmul/hopper/matmul_tiles_args.h"
#include "kernels/tile/activation.h"
#include "kernels/tile/hopper/barrier.h"
#include "kernels/tile/hopper/registers.h"
#include "kernels/tile/hopper/shared.h"

namespace rocmforge::hopper {

// Registers of a thread after the warpgroups have redistributed the registers of the launch: 168 128 or 96 for each thread.
constexpr int tiles_consumer_registers(int consumers) { return consumers == 2 ? 232 : consumers == 3 ? 152 : 104; }
constexpr int tiles_producer_registers(int consumers) { return consumers == 2 ? 40 : consumers == 3 ? 56 : 64; }

/// The new output, where `before` is the old one (0 where the sum is not accumulated).
__device__ inline float joined(const MatmulTilesPart& part, float before, float y) {
  return part.store == TilesStore::gate ? activate(part.activation, before) * y : before + y;
}

// A lane's sums are of rows `row` and `row` + 8, of the next subtile's 64 further on, and of tokens `token` + 8 j and the
// next; they lie as Wgmma says.

template <int subtiles, int count>
__device__ void store_sums(const MatmulTilesArgs& args, const MatmulTilesPart& part, int row, int token,
                           const float (&sums)[subtiles][count]) {
  constexpr int rows = 2 * subtiles;
  constexpr int batch = 2;
  const auto offset = [](int r) { return r / 2 * 64 + r % 2 * 8; };
  float bias[rows];
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    bias[r] = part.bias != nullptr && row + offset(r) < part.n ? part.bias[row + offset(r)] : 0.0f;
  }
#pragma unroll
  for (int begin = 0; begin < count / 4; begin += batch) {
    float before[2 * batch][rows];
#pragma unroll
    for (int i = 0; i < 2 * batch; ++i) {
      const int t = token + (begin + i / 2) * 8 + i % 2;
      const float* out = part.out + t * part.stride + row;
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        before[i][r] =
            part.store != TilesStore::plain && t < args.tokens && row + offset(r) < part.n ? out[offset(r)] : 0.0f;
      }
    }
#pragma unroll
    for (int i = 0; i < 2 * batch; ++i) {
      const int t = token + (begin + i / 2) * 8 + i % 2;
      if (t < args.tokens) {
        const float scale = args.x_scales[t];
        float* out = part.out + t * part.stride + row;
#pragma unroll
        for (int r = 0; r < rows; ++r) {
          if (row + offset(r) < part.n) {
            const float y = sums[r / 2][4 * (begin + i / 2) + 2 * (r % 2) + i % 2] * scale + bias[r];
            out[offset(r)] = joined(part, before[i][r], y);
          }
        }
      }
    }
  }
}

/// Subtile 0 is the gate, 1 the same rows of up.
template <int subtiles, int count>
__device__ void store_gated(const MatmulTilesArgs& args, int row, int token, const float (&sums)[subtiles][count]) {
  if constexpr (subtiles == 2) {
    const MatmulTilesPart& part = args.parts[0];
    const float* up_biases = args.parts[1].bias;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row + 8 * half;
      if (r >= part.n) {
        continue;
      }
      const float gate_bias = part.bias != nullptr ? part.bias[r] : 0.0f;
      const float up_bias = up_biases != nullptr ? up_biases[r] : 0.0f;
#pragma unroll
      for (int i = 0; i < count / 2; ++i) {
        const int t = token + i / 2 * 8 + i % 2;
        if (t < args.tokens) {
          const float scale = args.x_scales[t];
          const float gate = sums[0][i / 2 * 4 + 2 * half + i % 2] * scale + gate_bias;
          const float up = sums[1][i / 2 * 4 + 2 * half + i % 2] * scale + up_bias;
          part.out[t * part.stride + r] = activate(args.gate, gate) * up;
        }
      }
    }
  }
}

struct alignas(128) TilesStage {
  float values[stage_tokens][stage_row_stride];
};

/// The output of a consumer: 64 rows of a part, which with a gate it shares with its neighbour, times the tokens.
struct TilesOutput {
  const MatmulTilesArgs& args;
  const MatmulTilesPart& part;
  const float* scales;  ///< of the tile's tokens, in shared memory
  int first_row;
  int first_token;
};

/// Four rows of one token. `full`: all of them exist and lie at a multiple of 16 bytes.
__device__ inline float4 load_rows(const float* from, int count, bool full) {
  if (full) {
    return *reinterpret_cast<const float4*>(from);
  }
  return {count > 0 ? from[0] : 0.0f, count > 1 ? from[1] : 0.0f, count > 2 ? from[2] : 0.0f, count > 3 ? from[3] : 0.0f};
}
__device__ inline void store_rows(float* to, const float4& values, int count, bool full) {
  if (full) {
    *reinterpret_cast<float4*>(to) = values;
    return;
  }
  const float single[4] = {values.x, values.y, values.z, values.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < count) {
      to[i] = single[i];
    }
  }
}
/// sum * scale + bias
__device__ inline float4 finished(const float4& sum, float scale, const float4& bias) {
  return {sum.x * scale + bias.x, sum.y * scale + bias.y, sum.z * scale + bias.z, sum.w * scale + bias.w};
}
__device__ inline float4 load_stage(std::uint32_t address) {
  std::uint32_t words[4];
  load_shared(words, address);
  return {__uint_as_float(words[0]), __uint_as_float(words[1]), __uint_as_float(words[2]), __uint_as_float(words[3])};
}

/// The tokens of a tile's output: tokens in order, or, in SlotsOfExpert, slots of one expert.
struct TokensInOrder {
  static constexpr bool are_slots = false;
};
struct SlotsOfExpert {
  static constexpr bool are_slots = true;
  const std::int32_t* slots;  ///< rows of the output, of which the tile has `count`
  int count;
  const float* biases[2];  ///< of the expert's gate and up, or down; or null
  float scales[2];
  Activation activation;  ///< of a gated pair
};

/// Consumers write their sums to rows of outputs through shared memory, some tokens at a time, so that a token's rows are
/// stored side by side. With a gate the sums of two neighbours are combined there.
template <class Tokens, int consumers, int count>
__device__ void store_tile(const TilesOutput& output, const Tokens& tokens, TilesStage (&stages)[consumers], int consumer,
                           int thread, const float (&sums)[count]) {
  const int pair = consumers == 2 ? 0 : consumer / 2;
  const int which = consumers == 2 ? consumer : consumer % 2;  // of the pair
  constexpr int chunks = count * 2 / stage_tokens;
  constexpr int passes = stage_tokens / 8;  // a consumer's threads write 8 tokens of 64 rows at a time
  const MatmulTilesPart& part = output.part;
  const bool gated = output.args.gate != Gate::none;
  const std::uint32_t scales = shared_address(output.scales);
  const std::uint32_t own = shared_address(stages[consumer].values);
  const std::uint32_t write =
      own + static_cast<std::uint32_t>(((thread % 4 * 2) * stage_row_stride + thread / 32 * 16 + thread % 32 / 4) * 4);
  const std::uint32_t read = static_cast<std::uint32_t>((thread / 16 * stage_row_stride + thread % 16 * 4) * 4);
  // The four rows that this thread stores.
  const int row = output.first_row + thread % 16 * 4;
  const int rows = part.n - row;
  const bool full = rows >= 4 && part.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(part.out) % 16 == 0;
  const float* biases = part.bias;
  const float* up_biases = output.args.parts[1].bias;
  if constexpr (Tokens::are_slots) {
    biases = tokens.biases[0];
    up_biases = tokens.biases[1];
  }
  const float4 zero{0.0f, 0.0f, 0.0f, 0.0f};
  const float4 bias = biases != nullptr ? load_rows(biases + row, rows, false) : zero;
  const float4 up_bias = gated && up_biases != nullptr ? load_rows(up_biases + row, rows, false) : zero;
  float* const out = part.out + (output.first_token + thread / 16) * part.stride + row;
  const auto exists = [&](int local) {
    if constexpr (Tokens::are_slots) {
      return rows > 0 && local < tokens.count;
    } else {
      return rows > 0 && output.first_token + local < output.args.tokens;
    }
  };
  // The output of this thread's token, `first` tokens further on.
  const auto out_of = [&](int first) {
    if constexpr (Tokens::are_slots) {
      return part.out + std::int64_t{tokens.slots[first + thread / 16]} * part.stride + row;
    } else {
      return out + first * part.stride;
    }
  };
  // A scale of the tile's tokens, times the expert's.
  const auto scale_of = [&](int token, int which) {
    const float scale = __uint_as_float(load_shared(scales + static_cast<std::uint32_t>(token * 4)));
    if constexpr (Tokens::are_slots) {
      return scale * tokens.scales[which];
    } else {
      return scale;
    }
  };
  const auto gated_value = [&](float gate, float up) {
    if constexpr (Tokens::are_slots) {
      return gpu::activate(tokens.activation, gate, up);
    } else {
      return activate(output.args.gate, gate) * up;
    }
  };
  float4 before[2][passes];  // of two chunks: one is loaded while the other is used
  const auto load_before = [&](int chunk) {
    if (part.store != TilesStore::plain) {
#pragma unroll
      for (int pass = 0; pass < passes; ++pass) {
        const int local = chunk * stage_tokens + pass * 8;
        if (exists(local + thread / 16)) {
          before[chunk % 2][pass] = load_rows(out_of(local), rows, full);
        }
      }
    }
  };
  load_before(0);
#pragma unroll
  for (int chunk = 0; chunk < chunks; ++chunk) {
    if (chunk + 1 < chunks) {
      load_before(chunk + 1);
    }
#pragma unroll
    for (int i = 0; i < stage_tokens / 2; ++i) {  // sums 4 quad + 2 half + e of the chunk
      const int local = i / 4 * 8 + i % 2;
      store_shared(write + static_cast<std::uint32_t>((local * stage_row_stride + i / 2 % 2 * 8) * 4),
                   sums[chunk * stage_tokens / 2 + i]);
    }
    if (gated) {
      named_barrier_sync(consumers + 1 + pair, 2 * warpgroup_size);
      const int local = which * 8 + thread / 16;
      const int token = chunk * stage_tokens + local;
      if (exists(token)) {
        const std::uint32_t at = read + static_cast<std::uint32_t>(which * 8 * stage_row_stride * 4);
        const float4 gate = finished(load_stage(shared_address(stages[2 * pair].values) + at), scale_of(token, 0), bias);
        const float4 up =
            finished(load_stage(shared_address(stages[2 * pair + 1].values) + at), scale_of(token, 1), up_bias);
        const float4 y{gated_value(gate.x, up.x), gated_value(gate.y, up.y), gated_value(gate.z, up.z),
                       gated_value(gate.w, up.w)};
        store_rows(out_of(chunk * stage_tokens + which * 8), y, rows, full);
      }
      named_barrier_sync(consumers + 1 + pair, 2 * warpgroup_size);
    } else {
      named_barrier_sync(1 + consumer, warpgroup_size);
#pragma unroll
      for (int pass = 0; pass < passes; ++pass) {
        const int token = chunk * stage_tokens + pass * 8 + thread / 16;
        if (exists(token)) {
          float4 y = finished(load_stage(own + read + pass * 8 * stage_row_stride * 4), scale_of(token, 0), bias);
          if (part.store != TilesStore::plain) {
            const float4& was = before[chunk % 2][pass];
            y = {joined(part, was.x, y.x), joined(part, was.y, y.y), joined(part, was.z, y.z), joined(part, was.w, y.w)};
          }
          store_rows(out_of(chunk * stage_tokens + pass * 8), y, rows, full);
        }
      }
      named_barrier_sync(1 + consumer, warpgroup_size);
    }
  }
}

}  // namespace rocmforge::hopper
