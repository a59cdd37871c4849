#include "base/json_document.h"

#include <gtest/gtest.h>

#include <string>

namespace rocmforge::test {
namespace {

using nlohmann::ordered_json;

TEST(JsonDocument, IntegersOfAnyLengthStayAsTheyAre) {
  const std::string text = R"({"a":18446744073709551616,"b":[-9223372036854775809,1.5,1e3,-7,true,null,"x"],"c":{}})";
  const JsonDocument document = read_json(text);
  ASSERT_EQ(document.problem, "");
  EXPECT_EQ(long_integer(document.value["a"]), "18446744073709551616");
  EXPECT_FALSE(long_integer(document.value["b"][3]).has_value());
  EXPECT_EQ(json_text(document.value),
            R"({"a":18446744073709551616,"b":[-9223372036854775809,1.5,1000.0,-7,true,null,"x"],"c":{}})");
  const ordered_json numbers = rounded(document.value);
  EXPECT_EQ(numbers["a"], 18446744073709551616.0);
  EXPECT_EQ(numbers["b"][0], -9223372036854775809.0);
}

TEST(JsonDocument, SaysWhatIsWrong) {
  EXPECT_EQ(read_json("[1" + std::string(400, '0') + "]").problem, "it holds a number that is too large");
  EXPECT_NE(read_json("{\"a\": }").problem.find("line 1, column 7"), std::string::npos) << read_json("{\"a\": }").problem;
  EXPECT_EQ(read_json(std::string("{}\0{", 4)).problem, "byte 3 is NUL");
  EXPECT_NE(read_json(std::string(1000, '[')).problem.find("nested deeper than 96 levels"), std::string::npos);
}

}  // namespace
}  // namespace rocmforge::test
