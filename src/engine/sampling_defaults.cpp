#include "engine/sampling_defaults.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "base/error.h"
#include "schedule/sampling_numbers.h"

namespace rocmforge {
namespace {

const std::string prefix = "general.sampling.";

void read_order(const GgufFile& file, SamplingParams& params) {
  const std::string key = prefix + "sequence";
  if (file.contains(key)) {
    try {
      params.order = sampler_order_of_names(file.string(key));
    } catch (const Error& error) {
      throw Error(fmt::format("{} {}", key, error.what()));
    }
  }
}

}  // namespace

SamplingParams sampling_defaults(const GgufFile& file) {
  SamplingParams params;
  for (const SamplingNumber& number : sampling_numbers()) {
    const std::string key = prefix + std::string(number.gguf_key);
    if (number.gguf_key.empty() || !file.contains(key)) {
      continue;
    }
    const double value = file.number(key);
    const bool whole = !number.is_whole() || value == std::floor(value);
    if (!(value >= number.least && value <= number.most) || !whole) {  // written so that NaN is refused
      throw Error(fmt::format("{} is {}, must be {}{} to {}", key, value, number.is_whole() ? "a whole number, " : "",
                              number.least, number.most));
    }
    number.set(params, value);
  }
  read_order(file, params);
  return params;
}

}  // namespace rocmforge
