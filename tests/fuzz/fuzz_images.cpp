#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "images/decode.h"
#include "images/image.h"

using namespace rocmforge;

/// Any bytes end in an image, which can be resized, or in an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const Image image =
        decode_image(std::span(data, size), {.pixels = 1 << 18, .decoder_bytes = 16 << 20, .painted_pixels = 1 << 22});
    if (resize(image, 28, 14, ResizeFilter::bicubic).rgb.size() != std::size_t{28} * 14 * 3) {
      std::abort();
    }
  } catch (const Error&) {  // no image
  }
  return 0;
}
