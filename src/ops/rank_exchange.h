#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ops/all_reduce.h"
#include "ops/registry.h"

namespace rocmforge {

/// What ranks exchange that are GPUs of one host: each writes its part into memory of the others, which its kernels can
/// reach, and reads what the others have written into its own, as one launch on its own stream. All ranks make the same
/// calls in the same order, with the same sizes. No host waits, so that calls may be recorded and replayed.
///
/// sum: out[i] = parts of rank 0, 1, ... added in this order, or out[i] += this sum, as AllReduce. gather: rows whose
/// columns the ranks have in their order; out is [rows, sum of widths]. Elements have 32 bits of any meaning there.
struct RankExchange {
  static constexpr std::string_view name = "rank_exchange";
  static constexpr std::int32_t most_ranks = AllReduce::most_ranks;

  struct Spec {
    std::int32_t ranks = 2;  ///< at most most_ranks
  };

  /// The memory that the ranks meet in; docs/kernels/rank_exchange.md tells the protocol. All of it is zero before the first
  /// call, and again after a call that was given up.
  struct Mail {
    std::array<void*, most_ranks> boxes{};    ///< of each rank, in its memory: box_bytes()
    std::uint32_t* rounds = nullptr;          ///< [groups] in this rank's memory, of no other's concern
    const std::uint32_t* given_up = nullptr;  ///< once it is not zero, no kernel waits any more, and results mean nothing
  };
  static constexpr std::int32_t groups = 128;              ///< the most work-groups of a launch, each with its part of a box
  static constexpr std::int64_t elements_of_group = 4096;  ///< of one sender in one launch
  /// The most elements of a rank that one launch moves to each other one; a call with more is several launches.
  static constexpr std::int64_t elements_of_launch = groups * elements_of_group;
  static constexpr std::size_t box_bytes(std::int32_t ranks) {
    constexpr std::size_t rounds_at_once = 2;
    constexpr std::size_t element_bytes = 8;  // with the number of its round
    return rounds_at_once * element_bytes * static_cast<std::size_t>(elements_of_launch * ranks);
  }

  enum class Kind : std::uint8_t { sum, gather };
  enum class Receivers : std::uint8_t { first, all };
  struct Args {
    Kind kind = Kind::sum;
    std::int32_t rank = 0;        ///< of this device
    const float* part = nullptr;  ///< [rows, widths[rank]]; may be null where it has no elements
    std::int64_t rows = 1;
    std::array<std::int64_t, most_ranks> widths{};  ///< sum: all the same
    Receivers receivers = Receivers::all;           ///< sum: all
    float* out = nullptr;                           ///< not the part. Gather: null where this rank's out is not wanted
    bool add = false;                               ///< sum: to what is in out
    Mail mail{};
  };
};

std::string to_string(const RankExchange::Spec& spec);

}  // namespace rocmforge
