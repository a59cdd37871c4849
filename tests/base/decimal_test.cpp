#include "base/decimal.h"

#include <gtest/gtest.h>

#include <clocale>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "temporary_folder.h"

namespace rocmforge {
namespace {

TEST(Decimal, ReadsTheNumberAtTheBeginning) {
  const auto expect = [](const std::string& text, double value, std::size_t length) {
    const DecimalPrefix read = read_decimal(text);
    EXPECT_EQ(read.value, value) << text;
    EXPECT_EQ(read.length, length) << text;
  };
  expect("0.7", 0.7, 3);
  expect("-1.5e-3 and more", -1.5e-3, 7);
  expect("0,7", 0.0, 1);
  expect(".5", 0.5, 2);
  expect("1e999", HUGE_VAL, 5);
  expect("-inf", -HUGE_VAL, 4);
  expect("", 0.0, 0);
  expect("x", 0.0, 0);
  EXPECT_TRUE(std::isnan(read_decimal("nan").value));
}

/// Makes a locale whose decimal point is a comma, and sets it. The system may have no such locale.
bool set_comma_locale(const std::filesystem::path& folder) {
  std::ofstream charmap(folder / "charmap");
  charmap << "<code_set_name> ASCII\n<comment_char> %\n<escape_char> /\nCHARMAP\n";
  for (int code = 0; code < 128; ++code) {
    char line[64];
    std::snprintf(line, sizeof(line), "<U%04X> /x%02x\n", code, code);
    charmap << line;
  }
  charmap << "END CHARMAP\n";
  charmap.close();
  std::ofstream definition(folder / "definition");
  definition << "comment_char %\nescape_char /\nLC_NUMERIC\ndecimal_point \"<U002C>\"\nthousands_sep \"\"\ngrouping -1\n"
                "END LC_NUMERIC\n";
  definition.close();
  const std::string at = folder.string() + "/";
  const std::string command =
      "localedef -c -f " + at + "charmap -i " + at + "definition " + at + "xx_COMMA >" + at + "log 2>&1";
  // It warns, with an exit status, of all that the definition leaves out.
  [[maybe_unused]] const int status = std::system(command.c_str());
  ::setenv("LOCPATH", folder.c_str(), 1);
  const bool is_set = std::setlocale(LC_NUMERIC, "xx_COMMA") != nullptr;
  ::unsetenv("LOCPATH");
  return is_set;
}

TEST(Decimal, KnowsNoLocale) {
  const TemporaryFolder folder;
  if (!set_comma_locale(folder.path())) {
    GTEST_SKIP() << "localedef makes no locale here";
  }
  EXPECT_EQ(std::strtod("0,7", nullptr), 0.7);  // the locale is in force
  EXPECT_EQ(read_decimal("0.7").value, 0.7);
  EXPECT_EQ(read_decimal("0,7").length, 1U);
  std::setlocale(LC_NUMERIC, "C");
}

}  // namespace
}  // namespace rocmforge
