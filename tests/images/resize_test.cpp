#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/error.h"
#include "images/image.h"
#include "images/pixels.h"
#include "paths.h"

namespace rocmforge {
namespace {

ResizeFilter filter_of(const std::string& name) {
  if (name == "lanczos") {
    return ResizeFilter::lanczos;
  }
  return name == "bicubic" ? ResizeFilter::bicubic : ResizeFilter::bilinear;
}

TEST(Resize, IsPillowsToTheBit) {
  std::ifstream lines(test::test_data("golden/images/resized.txt"));
  std::uint64_t seed = 0;
  int width = 0, height = 0, new_width = 0, new_height = 0, count = 0;
  std::string filter;
  std::uint64_t hash = 0;
  while (lines >> std::dec >> seed >> width >> height >> new_width >> new_height >> filter >> std::hex >> hash) {
    const Image image = resize(test::pixels(seed, width, height), new_width, new_height, filter_of(filter));
    EXPECT_EQ(image.width, new_width);
    EXPECT_EQ(image.height, new_height);
    EXPECT_EQ(test::hash_of(image.rgb), hash) << "case " << seed;
    ++count;
  }
  EXPECT_EQ(count, 300);
}

TEST(Resize, TheSameSizeIsTheSameImage) {
  const Image image = test::pixels(1, 9, 7);
  EXPECT_EQ(resize(image, 9, 7, ResizeFilter::bicubic).rgb, image.rgb);
}

TEST(Resize, SidesOfNothingAreRefused) {
  EXPECT_THROW(resize(test::pixels(1, 9, 7), 0, 7, ResizeFilter::bicubic), LogicError);
  EXPECT_THROW(resize(Image{9, 7, {}}, 3, 3, ResizeFilter::bicubic), LogicError);
}

}  // namespace
}  // namespace rocmforge
