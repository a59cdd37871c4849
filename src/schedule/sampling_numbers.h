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

/// One number of SamplingParams: how requests, flags and files name it and which values all of them may give it.
struct SamplingNumber {
  std::string_view name;  ///< in requests and answers
  std::string_view flag;
  std::string_view gguf_key;  ///< behind "general.sampling."; "" where files have none
  double least;
  double most;
  std::variant<float SamplingParams::*, std::int32_t SamplingParams::*> member;
  std::string_view meaning;

  [[nodiscard]] bool is_whole() const { return std::holds_alternative<std::int32_t SamplingParams::*>(member); }
  [[nodiscard]] double get(const SamplingParams& params) const;
  /// `value` lies within the limits. What others write for "off" (top_k -1) or for "the best alone" (top_p 0) becomes what
  /// SamplingParams takes.
  void set(SamplingParams& params, double value) const;
};

std::span<const SamplingNumber> sampling_numbers();

constexpr std::size_t num_sampling_numbers = 9;

/// What somebody chose of them, in their order; the rest stays as it is.
struct SamplingChoices {
  std::array<std::optional<double>, num_sampling_numbers> values{};

  void apply(SamplingParams& params) const;
};

}  // namespace rocmforge
