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
  const std::vector<std::int32_t> places = {1, 3}, counts = {2, 3};
  EXPECT_THAT(put_image_tokens(ids, places, counts, {.token = 9}), ElementsAre(1, 4));
  EXPECT_THAT(ids, ElementsAre(1, 9, 9, 2, 9, 9, 9, 3));
}

TEST(ImageTokens, HaveMarksAroundThem) {
  std::vector<std::int32_t> ids = {9, 9};
  const std::vector<std::int32_t> places = {0, 1}, counts = {1, 1};
  EXPECT_THAT(put_image_tokens(ids, places, counts, {.token = 7, .before = {4, 5}, .after = {6}}), ElementsAre(2, 6));
  EXPECT_THAT(ids, ElementsAre(4, 5, 7, 6, 4, 5, 7, 6));
}

TEST(ImageTokens, NeedPlacesInTheirOrder) {
  std::vector<std::int32_t> ids = {9, 1, 9};
  const std::vector<std::int32_t> counts = {1, 1};
  const std::vector<std::int32_t> falling = {2, 0}, outside = {0, 3}, few = {0};
  EXPECT_THROW(put_image_tokens(ids, falling, counts, {.token = 9}), LogicError);
  EXPECT_THROW(put_image_tokens(ids, outside, counts, {.token = 9}), LogicError);
  EXPECT_THROW(put_image_tokens(ids, few, counts, {.token = 9}), LogicError);
}

}  // namespace
}  // namespace rocmforge
