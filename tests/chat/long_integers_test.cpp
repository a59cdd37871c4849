#include <gtest/gtest.h>

#include <string>

#include "base/json_document.h"
#include "chat/chat_template.h"

namespace rocmforge::test {
namespace {

using nlohmann::ordered_json;

/// As transformers prints them, whose integers have no limit.
TEST(LongIntegers, ArePrintedByTemplates) {
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

TEST(LongIntegers, AreInToolsThatAreDescribed) {
  const ChatTemplate plain("{% for m in messages %}{{ m.role ~ m.content }}{% endfor %}");
  ChatRequest request;
  request.messages = ordered_json::parse(R"([{"role": "user", "content": "Q"}])");
  request.tools = read_json(R"([{"function": {"name": "f", "parameters": {"maximum": 602214076000000000000000}}}])").value;
  EXPECT_NE(text_of(plain.prompt(request).segments).find(R"({"maximum":602214076000000000000000})"), std::string::npos);
}

}  // namespace
}  // namespace rocmforge::test
