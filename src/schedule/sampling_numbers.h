#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "schedule/sampling_params.h"

namespace rocmforge {

/// One number of SamplingParams: its names in requests, flags and files, and its range.
struct SamplingNumber {
  std::string_view name;  ///< in requests and answers
  std::string_view flag;
  std::string_view gguf_key;  ///< after "general.sampling."; "" where GGUF has no key for it
  double least;
  double most;
  std::variant<float SamplingParams::*, std::int32_t SamplingParams::*> member;
  std::string_view meaning;

  [[nodiscard]] bool is_whole() const { return std::holds_alternative<std::int32_t SamplingParams::*>(member); }
  [[nodiscard]] double get(const SamplingParams& params) const;
  /// Checks that `value` is within the limits. Values that other programs use for "off" (top_k -1) or "only the best" (top_p
  /// 0) are converted to those of SamplingParams.
  void set(SamplingParams& params, double value) const;
};

std::span<const SamplingNumber> sampling_numbers();

constexpr std::size_t num_sampling_numbers = 24;

/// What was set: the numbers in the order of sampling_numbers, and the order of the samplers. The rest keeps its values.
struct SamplingChoices {
  std::array<std::optional<double>, num_sampling_numbers> values{};
  std::optional<SamplerOrder> order{};

  void apply(SamplingParams& params) const;
};

}  // namespace rocmforge
