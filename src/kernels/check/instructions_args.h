#pragma once

#include <cstdint>

namespace rocmforge::check_kernels {

/// Exchanges between the lanes of a wave: masks of shuffle_xor and of AMD's own instructions, then reductions.
struct LaneArgs {
  static constexpr int masks[] = {1, 2, 4, 8, 16, 32, 7, 15};  ///< the value of lane (own ^ mask), own where there is none
  static constexpr int results = 11;  ///< of a thread: by the masks, the sum and the maximum of the wave, and lane 5's value
  const std::int32_t* in;             ///< [256]
  std::int32_t* out;                  ///< [results, 256]
};

/// Products of four signed bytes, added to their index.
struct DotArgs {
  const std::uint32_t* a;  ///< [count]
  const std::uint32_t* b;
  std::int32_t* out;
  std::int32_t count;
  std::int32_t unused;
};

/// Products of tiles by one wave. Operands are [16, k] rows, of A and of B transposed.
struct TileArgs {
  static constexpr int byte_k = 64;
  static constexpr int half_k = 16;
  static constexpr int ways = 4;  ///< of loading: load_a and load_b, load_b_k, and both from shared memory
  const void* a;                  ///< halves or bfloat16: [16, half_k]; bytes: [16, byte_k]
  const void* b;
  void* out;  ///< halves: [ways, 16, 16] floats, twice the product; bytes: [16, 16] integers
};

/// Numbers too small for a full mantissa.
struct SubnormalArgs {
  const float* in;              ///< [count]
  const std::uint16_t* halves;  ///< [count]
  float* out;                   ///< [5, count]: in * factor, in + in, halves as floats, in as half and as bfloat16 and back
  std::int32_t count;
  float factor;
};

/// A scalar register that vector instructions read, and scalar ones write and read again, in every round.
struct ScalarArgs {
  std::uint32_t* out;  ///< [256]
  std::uint32_t seed;
  std::int32_t rounds;
};

/// Values that go round the work-group through shared memory, between barriers for shared memory alone.
struct SharedArgs {
  static constexpr int step = 37;
  std::uint32_t* out;  ///< [256]
  std::int32_t rounds;
  std::int32_t unused;
};

/// What every work-group stores, added up by the last one to arrive.
struct ArrivalArgs {
  std::uint32_t* done;   ///< zero
  std::uint32_t* parts;  ///< [groups, 256]: becomes round + group
  std::uint32_t* sum;    ///< zero; becomes the sum of all parts
  std::uint32_t round;
  std::uint32_t unused;
};

/// A link of a chain: out[count - 1 - i] = in[i] * 1664525 + 1013904223.
struct ChainArgs {
  static constexpr std::uint32_t factor = 1664525;
  static constexpr std::uint32_t term = 1013904223;
  const std::uint32_t* in;
  std::uint32_t* out;
  std::int64_t count;
};

/// As large as the largest parameters of kernels of models.
struct ParameterArgs {
  static constexpr int count = 124;
  std::uint32_t words[count];
  std::uint32_t* out;  ///< [count]
};

}  // namespace rocmforge::check_kernels
