#include "service/image_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace rocmforge {
namespace {

using testing::ElementsAre;

TEST(ImageTokens, TakeThePlacesOfPlaceholders) {
  std::vector<std::int32_t> ids = {1, 9, 2, 9, 3};
  const std::vector<std::int32_t> places = {1, 3};
  const std::vector<ImageTokens> images = {{.token = 9, .rows = {{.count = 2}}}, {.token = 9, .rows = {{.count = 3}}}};
  EXPECT_THAT(put_image_tokens(ids, places, images), ElementsAre(1, 4));
  EXPECT_THAT(ids, ElementsAre(1, 9, 9, 2, 9, 9, 9, 3));
}

TEST(ImageTokens, HaveMarksAroundThem) {
  std::vector<std::int32_t> ids = {9, 9};
  const std::vector<std::int32_t> places = {0, 1};
  const ImageTokens image{.token = 7, .rows = {{.before = {4, 5}, .count = 1}}, .after = {6}};
  EXPECT_THAT(put_image_tokens(ids, places, std::vector{image, image}), ElementsAre(2, 6));
  EXPECT_THAT(ids, ElementsAre(4, 5, 7, 6, 4, 5, 7, 6));
}

TEST(ImageTokens, OfTilesHaveOthersBetweenThem) {
  std::vector<std::int32_t> ids = {1, 9, 3};
  const std::vector<std::int32_t> places = {1};
  const ImageTokens tiles{.token = 7,
                          .rows = {{.before = {4}, .count = 2}, {.before = {}, .count = 2}, {.before = {5}, .count = 1}},
                          .after = {6}};
  EXPECT_THAT(put_image_tokens(ids, places, {&tiles, 1}), ElementsAre(2, 4, 7));
  EXPECT_THAT(ids, ElementsAre(1, 4, 7, 7, 7, 7, 5, 7, 6, 3));
}

TEST(ImageTokens, NeedPlacesInTheirOrder) {
  std::vector<std::int32_t> ids = {9, 1, 9};
  const ImageTokens image{.token = 9, .rows = {{.count = 1}}};
  const std::vector<ImageTokens> images = {image, image};
  const std::vector<std::int32_t> falling = {2, 0}, outside = {0, 3}, few = {0};
  EXPECT_THROW(put_image_tokens(ids, falling, images), LogicError);
  EXPECT_THROW(put_image_tokens(ids, outside, images), LogicError);
  EXPECT_THROW(put_image_tokens(ids, few, images), LogicError);
}

}  // namespace
}  // namespace rocmforge
