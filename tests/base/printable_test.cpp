#include "base/printable.h"

#include <gtest/gtest.h>

namespace rocmforge::test {
namespace {

TEST(Printable, WhatATerminalWouldObeyStandsAsEscapes) {
  EXPECT_EQ(printable("Gr\u00FC\u00DFe, \u65E5\u672C \U0001F600"), "Gr\u00FC\u00DFe, \u65E5\u672C \U0001F600");
  EXPECT_EQ(printable("a\nb\tc\r\x1b[31m\x7f"), "a\\nb\\tc\\x0d\\x1b[31m\\x7f");
  EXPECT_EQ(printable("\u0085\u009B31m"), "\\u0085\\u009b31m");  // C1: a CSI in two bytes
  EXPECT_EQ(printable("a\u202Egnp.exe\u202C\u2066\u200F"), "a\\u202egnp.exe\\u202c\\u2066\\u200f");
  EXPECT_EQ(printable("\u2028\u2029\uFEFF"), "\\u2028\\u2029\\ufeff");
  EXPECT_EQ(printable("\x9b"
                      "31m \xff\xc3 \xed\xa0\x80"),
            "\\x9b31m \\xff\\xc3 \\xed\\xa0\\x80");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Printable, LongTextsAreCut) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdef", 4), "abcd... (2 more bytes)");
  const std::string cut = printable(std::string(1'000'000, '\n'), longest_line);
  EXPECT_LT(cut.size(), longest_line + 40);
  EXPECT_TRUE(cut.ends_with("more bytes)"));
}

}  // namespace
}  // namespace rocmforge::test
