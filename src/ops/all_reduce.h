#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "ops/registry.h"

namespace rocmforge {

/// out[i] = parts[0][i] + parts[1][i] + ..., or out[i] += this sum: the ranks of a model each have a part of a layer's
/// output, and every rank needs the sum. The parts are added in the order of the ranks, so that all ranks get the same bits.
/// A kernel reads the parts of the other ranks where they lie; who calls it knows that they are complete (Communicator).
struct AllReduce {
  static constexpr std::string_view name = "all_reduce";
  static constexpr std::int32_t most_ranks = 16;

  struct Spec {
    std::int32_t ranks = 2;  ///< at most most_ranks; 1: the part is only copied or added
  };
  struct Args {
    std::array<const float*, most_ranks> parts{};  ///< [count] of each of Spec::ranks
    std::int64_t count = 0;
    float* out = nullptr;  ///< [count], none of the parts
    bool add = false;      ///< to what is in out
  };
};

std::string to_string(const AllReduce::Spec& spec);

}  // namespace rocmforge
