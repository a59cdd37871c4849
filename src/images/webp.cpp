#include <webp/decode.h>

#include <cstddef>

#include "base/error.h"
#include "images/codec.h"

namespace rocmforge {

Image decode_webp(const ImageFile& file) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(file.bytes.data(), file.bytes.size(), &features) != VP8_STATUS_OK) {
    throw Error("its header is broken");
  }
  if (features.has_animation != 0) {
    throw Error("it is animated, which is not read: send a single frame");
  }
  Image image = new_image(features.width, features.height, file, 4 /* of lossless ones */);
  spend_pixels(file, static_cast<std::int64_t>(features.width) * features.height);
  if (WebPDecodeRGBInto(file.bytes.data(), file.bytes.size(), image.rgb.data(), image.rgb.size(), image.width * 3) ==
      nullptr) {
    throw Error("it is broken or ends early");
  }
  return image;
}

}  // namespace rocmforge
