#include "engine/sampling_defaults.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "schedule/sampling_numbers.h"

namespace rocmforge {
namespace {

const std::string prefix = "general.sampling.";

/// Warns of recommendations for methods that this engine does not have. The value 0 means off.
void warn_of_others(const GgufFile& file) {
  std::string keys;
  const auto add = [&](const std::string& key) { keys += (keys.empty() ? "" : ", ") + prefix + key; };
  for (const char* key : {"mirostat", "xtc_probability"}) {
    if (file.number(prefix + key, 0.0) != 0.0) {
      add(key);
    }
  }
  if (file.contains(prefix + "sequence")) {
    add("sequence");
  }
  if (!keys.empty()) {
    log_warning("{}: {}: not followed, tokens are drawn without it", file.path().string(), keys);
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
  warn_of_others(file);
  return params;
}

}  // namespace rocmforge
