#include "base/ascii.h"

#include <gtest/gtest.h>

namespace rocmforge {
namespace {

TEST(Ascii, LettersChangeTheirCaseAndNothingElseDoes) {
  EXPECT_EQ(ascii_lower("Qwen3-VL_\xc3\x84@["), "qwen3-vl_\xc3\x84@[");
  EXPECT_EQ(ascii_upper("q4_k_m{`\xc3\xa4"), "Q4_K_M{`\xc3\xa4");
}

}  // namespace
}  // namespace rocmforge
