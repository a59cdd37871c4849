#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sample_stage.h"

namespace rocmforge {

/// Which samplers act, and the order of the filters and the temperature among them. Penalties and DRY act on the host before
/// all others, adaptive-p behind them.
struct SamplerOrder {
  bool penalties = true;
  bool dry = true;
  bool adaptive_p = true;
  /// What is not in it is off; without `temperature` tokens are drawn at temperature 1.
  std::vector<SampleStage> stages{SampleStage::top_n_sigma, SampleStage::top_k, SampleStage::typical_p,  SampleStage::top_p,
                                  SampleStage::min_p,       SampleStage::xtc,   SampleStage::temperature};

  [[nodiscard]] bool names(SampleStage stage) const;
};

/// The order of llama.cpp's names, or of its letters where a name has one character. What is not named is off. Throws Error
/// for an unknown name, for penalties or DRY behind a filter, and for more than 32 names.
SamplerOrder sampler_order(std::span<const std::string_view> names);
/// The same of names between semicolons ("top_k;temperature").
SamplerOrder sampler_order_of_names(std::string_view text);
/// The same of letters ("kt").
SamplerOrder sampler_order_of_letters(std::string_view text);
/// The first name of each.
std::vector<std::string_view> names_of(const SamplerOrder& order);

}  // namespace rocmforge
