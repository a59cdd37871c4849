#include "base/blanks.h"

#include <gtest/gtest.h>

namespace rocmforge {
namespace {

TEST(Blanks, TrimmedIsWithoutThemAroundIt) {
  EXPECT_EQ(trimmed(" \t a b\r\n"), "a b");
  EXPECT_EQ(trimmed("a"), "a");
  EXPECT_EQ(trimmed(" \r\n\t"), "");
  EXPECT_EQ(trimmed(""), "");
  EXPECT_EQ(trimmed("--a-", "-"), "a");
}

}  // namespace
}  // namespace rocmforge
