#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "audio/decode.h"
#include "base/error.h"

using namespace rocmforge;

/// Any bytes end in finite samples, or in an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::vector<float> samples = decode_sound(std::span(data, size), {.seconds = 10, .samples = 1 << 18});
    if (!std::ranges::all_of(samples, [](float sample) { return std::isfinite(sample); })) {
      std::abort();
    }
  } catch (const Error&) {  // no recording
  }
  return 0;
}
