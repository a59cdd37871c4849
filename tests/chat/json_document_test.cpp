#include "chat/json_document.h"

#include <gtest/gtest.h>

#include "chat/chat_template.h"

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

/// As transformers prints them, whose integers have no limit.
TEST(JsonDocument, TemplatesPrintIntegersOfAnyLength) {
  const std::string mole = "602214076000000000000000";                                         // beyond 64 bits
  const std::string longer = "-123456789012345678901234567890123456789012345678901234567890";  // beyond 128
  const ChatTemplate prints(
      "{% if x is defined %}{{ x }} {{ y }} {{ [x, y] }} {{ {'x': x, 'y': y} | tojson }} {{ x + 1 }} {{ y | string }} {% "
      "endif %}"
      "{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
      "{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}");
  ChatRequest request;
  request.arguments = read_json("{\"x\": " + mole + ", \"y\": " + longer + "}").value;
  request.tools = read_json(R"([{"function": {"name": "f", "maximum": )" + longer + "}}]").value;
  request.messages = ordered_json::parse(R"([{"role": "user", "content": "Q"}, {"role": "assistant", "content": "",
      "tool_calls": [{"function": {"name": "f", "arguments": "{\"n\": )" +
                                         mole + R"(}"}}]}, {"role": "user", "content": "R"}])");
  EXPECT_EQ(text_of(prints.prompt(request).segments),
            mole + " " + longer + " [" + mole + ", " + longer + "] {\"x\": " + mole + ", \"y\": " + longer +
                "} 602214076000000000000001 " + longer + " [{\"function\": {\"name\": \"f\", \"maximum\": " + longer +
                "}}]Q{\"n\": " + mole + "}R");
}

TEST(JsonDocument, LongIntegersInAConversationThatIsDescribed) {
  const ChatTemplate plain("{% for m in messages %}{{ m.role ~ m.content }}{% endfor %}");
  ChatRequest request;
  request.messages = ordered_json::parse(R"([{"role": "user", "content": "Q"}])");
  request.tools = read_json(R"([{"function": {"name": "f", "parameters": {"maximum": 602214076000000000000000}}}])").value;
  EXPECT_NE(text_of(plain.prompt(request).segments).find(R"({"maximum":602214076000000000000000})"), std::string::npos);
}

}  // namespace
}  // namespace rocmforge::test
