#pragma once

#include <cstdint>

namespace rocmforge::gpu {

inline constexpr int most_exchanging_ranks = 16;

/// Grid: elements.
struct AllReduceArgs {
  const float* parts[most_exchanging_ranks];  ///< [count] of each rank
  float* out;                                 ///< [count]
  std::int64_t count;
  std::int32_t ranks;
  std::int32_t add;  ///< 0: out is replaced
};

/// An element of a box: its 32 bits, and the number of the round in which it was written, in one store. Rounds of one parity
/// share a place. A box is [groups][2 parities][ranks][elements_of_group] of these.
using BoxElement = std::uint64_t;

/// After so many rounds a work-group marks its part of the box anew, so that no number of a round comes back.
inline constexpr std::uint32_t rounds_of_marks = 1u << 20;

/// Grid: work-groups, each with its part of all boxes: elements first + [group * chunk, (group + 1) * chunk) of each rank.
struct RankExchangeArgs {
  const std::uint32_t* part;                    ///< [rows, widths[rank]]
  std::uint32_t* out;                           ///< sum: [count], else [rows, sum of widths] or null
  BoxElement* boxes[most_exchanging_ranks];     ///< in the memory of each rank
  std::uint32_t* rounds;                        ///< [groups]
  const std::uint32_t* given_up;                ///< a flag that the host sets
  std::uint32_t counts[most_exchanging_ranks];  ///< elements of each rank: rows * width
  std::uint32_t widths[most_exchanging_ranks];  ///< gather
  std::uint32_t first;                          ///< element of this launch
  std::uint32_t chunk;                          ///< elements of a work-group, even, at most elements_of_group
  std::uint32_t elements_of_group;
  std::uint32_t slice;  ///< sum: of a work-group's elements, those that a rank adds for all, even, twice in elements_of_group; 0: each adds all
  std::int32_t rank;
  std::int32_t ranks;
  std::int32_t gathers;   ///< 0: a sum
  std::int32_t to_first;  ///< gather: rank 0 alone receives
  std::int32_t add;       ///< sum: 0 if out is replaced
};

}  // namespace rocmforge::gpu
