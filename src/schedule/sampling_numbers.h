#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schedule/sampling_params.h"

namespace rocmforge {

/// The values with which a token can be drawn. NaN is never one.
struct SamplingRange {
  double least;
  double most;
  bool above_least = false;  ///< `least` itself is out of range
  std::string_view words{};  ///< behind "must be"
};

/// One number of SamplingParams: its names in requests, flags and files, and its ranges.
struct SamplingNumber {
  std::string_view name;  ///< in requests and answers
  std::string_view flag;
  std::string_view gguf_key;  ///< after "general.sampling."; "" where GGUF has no key for it
  double least;               ///< that a user may ask for
  double most;
  std::variant<float SamplingParams::*, std::int32_t SamplingParams::*> member;
  SamplingRange valid;
  std::string_view meaning;

  [[nodiscard]] bool is_whole() const { return std::holds_alternative<std::int32_t SamplingParams::*>(member); }
  [[nodiscard]] double get(const SamplingParams& params) const;
  /// Checks that `value` is within the limits. Values that other programs use for "off" (top_k -1) or "only the best" (top_p
  /// 0) are converted to those of SamplingParams.
  void set(SamplingParams& params, double value) const;
  /// Empty when the number is in `valid`, else one line ("top_p is 1.5, must be in (0, 1]").
  [[nodiscard]] std::string problem(const SamplingParams& params) const;
};

std::span<const SamplingNumber> sampling_numbers();

/// What was set: the numbers in the order of sampling_numbers, and the order of the samplers. The rest keeps its values.
struct SamplingChoices {
  std::vector<std::optional<double>> values = std::vector<std::optional<double>>(sampling_numbers().size());
  std::optional<SamplerOrder> order{};

  void apply(SamplingParams& params) const;
};

}  // namespace rocmforge
