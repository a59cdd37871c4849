#include "base/base64.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace rocmforge {
namespace {

TEST(Base64, BytesOfEveryLength) {
  EXPECT_EQ(decode_base64(""), "");
  EXPECT_EQ(decode_base64("Zg=="), "f");
  EXPECT_EQ(decode_base64("Zm8="), "fo");
  EXPECT_EQ(decode_base64("Zm9v"), "foo");
  EXPECT_EQ(decode_base64("Zm9vYg=="), "foob");
  EXPECT_EQ(decode_base64("AP+A"), std::string("\0\xff\x80", 3));
}

TEST(Base64, TheAlphabetOfUrlsMissingPaddingAndLineEnds) {
  EXPECT_EQ(decode_base64("-_-_"), decode_base64("+/+/"));
  EXPECT_EQ(decode_base64("Zm9vYg"), "foob");
  EXPECT_EQ(decode_base64("Zm9v\r\n Yg==\n"), "foob");
}

TEST(Base64, OtherTextsAreNone) {
  for (const std::string_view text : {"Z", "Zm9vY", "Zg==Zg==", "Zm9*", "data:,Zm9v", "\xc3\xa4"}) {
    EXPECT_EQ(decode_base64(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace rocmforge
