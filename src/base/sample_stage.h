#pragma once

#include <cstdint>

namespace rocmforge {

/// What happens to the tokens of a row that may be drawn, one stage after another. A stage whose parameter is off does
/// nothing. Probabilities are those of the tokens left at that stage; those behind `temperature` are at that temperature.
/// `zipf` and `surprise` are the cuts of Mirostat 1 and 2.
enum class SampleStage : std::uint8_t {
  none,
  top_n_sigma,
  top_k,
  typical_p,
  top_p,
  min_p,
  xtc,
  temperature,
  zipf,
  surprise
};

}  // namespace rocmforge
