#include "chat/answer_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "base/json.h"
#include "chat/chat_template_files.h"
#include "tokenizer/vocabulary_files.h"

namespace rocmforge::test {
namespace {

using Kind = AnswerDelta::Kind;
using Style = ToolCallStyle;

struct Case {
  std::string text;
  ParsedAnswer expected;
};

AnswerFormat format_of(Style style) {
  AnswerFormat format;
  if (style == Style::seed) {
    format.reasoning = {"<seed:think>", "</seed:think>"};
  }
  if (style == Style::gemma4) {
    format.reasoning = {"<|channel>thought", "<channel|>"};
  }
  if (style == Style::harmony) {
    format.in_channels = format.header_is_open = true;
    format.reasoning = {"<|channel|>analysis<|message|>", "<|channel|>final<|message|>"};
  }
  format.has_tools = true;
  format.style = style;
  format.tool_names = {"add", "look_up"};
  format.tools = std::make_shared<const nlohmann::ordered_json>(nlohmann::ordered_json::parse(R"([
      {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {
        "a": {"type": "integer"}, "b": {"type": "array"}, "t": {"type": "string"},
        "o": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}}},
      {"type": "function", "function": {"name": "look_up"}}])"));
  return format;
}

const std::vector<Case> hermes_cases = {
    {"Hello", {"", "Hello", {}}},
    {" two words \n", {"", " two words \n", {}}},
    {"<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": [2, {\"c\": \"}\\\"{\"}]}}\n</tool_call>",
     {"", "", {{"", "add", "{\"a\": 1, \"b\": [2, {\"c\": \"}\\\"{\"}]}"}}}},
    {"I look.\n\n<tool_call>{\"name\":\"look_up\",\"arguments\":{}}</tool_call>\n<tool_call>\n{\"name\": \"add\", "
     "\"arguments\": {\"a\": "
     "\"ä日\"}}\n</tool_call>\n",
     {"", "I look.", {{"", "look_up", "{}"}, {"", "add", "{\"a\": \"ä日\"}"}}}},
    {"<tool_call>{\"arguments\": {\"a\": 1}, \"id\": \"x1\", \"name\": \"any\"}</tool_call> Done.",
     {"", "Done.", {{"x1", "any", "{\"a\": 1}"}}}},
    {"<tool_call>{\"name\": \"add\"}</tool_call>", {"", "", {{"", "add", "{}"}}}},
    {"<tool_call>{\"name\": \"add\", \"arguments\": null}</tool_call>", {"", "", {{"", "add", "{}"}}}},
    {"<tool_call>{\"name\": \"add\", \"arguments\": \"{\\\"a\\\": \\\"\\\\n\\\"}\"}</tool_call>",
     {"", "", {{"", "add", "{\"a\": \"\\n\"}"}}}},
    {"<tool_call>{\"name\": \"a\\u0064d\", \"x\": [\"]\", {\"y\": 1}], \"z\": \"}\", \"arguments\": {\"a\": "
     "1},}</tool_call>",
     {"", "", {{"", "add", "{\"a\": 1}"}}}},
    // Broken off, by a limit for one.
    {"<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": \"n", {"", "", {{"", "add", "{\"a\": \"n"}}}},
    {"x <tool_call>\n{\"na", {"", "x <tool_call>\n{\"na", {}}},
    {"x <tool_call>", {"", "x <tool_call>", {}}},
    {"x <tool_c", {"", "x <tool_c", {}}},
    // None.
    {"a <tool_call>not JSON</tool_call> b", {"", "a <tool_call>not JSON</tool_call> b", {}}},
    {"<tool_call>{\"nome\": 1}</tool_call>", {"", "<tool_call>{\"nome\": 1}</tool_call>", {}}},
    {"<tool_call>{\"name\": 5}</tool_call>", {"", "<tool_call>{\"name\": 5}</tool_call>", {}}},
    {"{\"name\": \"add\", \"arguments\": {}}", {"", "{\"name\": \"add\", \"arguments\": {}}", {}}},
    {"a < b <tool <tool_callx", {"", "a < b <tool <tool_callx", {}}},
    // With reasoning.
    {"<think>\nAdd. <tool_call>\n\n</think>\n\n<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>",
     {"Add. <tool_call>", "", {{"", "add", "{}"}}}},
    {"\n <think>a\nb </think>  c", {"a\nb", "c", {}}},
    {"<think></think>\n\nc", {"", "c", {}}},
    {"<think>never ends </thin", {"never ends </thin", "", {}}},
    {"<think", {"", "<think", {}}},
    {"a <think>b</think>", {"", "a <think>b</think>", {}}},
    {"<think>a</think><think>b</think>", {"a", "<think>b</think>", {}}},
};

const std::vector<Case> harmony_cases = {
    {"<|channel|>final<|message|>Hello", {"", "Hello", {}}},
    // The marks that end a message are control tokens, which texts leave out, or not.
    {"<|channel|>analysis<|message|> Think.\n<|start|>assistant<|channel|>final<|message|>Hi < <|x|> there\n",
     {"Think.", "Hi < <|x|> there\n", {}}},
    {"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|end|>\n"
     "<|start|>assistant<|channel|>final<|message|>c<|return|>",
     {"a\n\nb", "c", {}}},
    {"<|channel|>analysis<|message|>Look.<|start|>assistant<|channel|>commentary to=functions.look_up "
     "<|constrain|>json<|message|>{\"a\": \"it's}\"}",
     {"Look.", "", {{"", "look_up", "{\"a\": \"it's}\"}"}}}},
    {"<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.add<|channel|>commentary json<|message|>"
     "\n {\"a\": {\"b\": 1}} <|call|>",
     {"", "I look.", {{"", "add", "{\"a\": {\"b\": 1}}"}}}},
    {"<|channel|>commentary to=python code<|message|>print(1)", {"", "", {{"", "python", "print(1)"}}}},
    {"<|channel|>commentary<|message|>First.<|end|><|start|>assistant<|channel|>final<|message|>Then.",
     {"", "First.\n\nThen.", {}}},
    // Incomplete messages.
    {"Hello <|end|>", {"", "Hello ", {}}},
    {" \n{\"a\": 1}", {"", " \n{\"a\": 1}", {}}},
    {"<|message|>Hello", {"", "Hello", {}}},
    {"<|channel|>final", {"", "<|channel|>final", {}}},
    {"<|channel|>analysis<|message|>never ends <|en", {"never ends <|en", "", {}}},
    {"<|channel|>final<|message|>a <|en", {"", "a <|en", {}}},
    {"<|channel|>analysis<|message|>a<|channel|>final<|message|>b", {"a", "b", {}}},
    {"", {"", "", {}}},
};

const std::vector<Case> llama3_cases = {
    {"{\"name\": \"add\", \"parameters\": {\"a\": 1}}", {"", "", {{"", "add", "{\"a\": 1}"}}}},
    {" \n{\"type\": \"function\", \"name\": \"add\", \"parameters\": {}}\n", {"", "", {{"", "add", "{}"}}}},
    {"<|python_tag|>{\"name\": \"add\", \"parameters\": {}}", {"", "", {{"", "add", "{}"}}}},
    {"{\"name\": \"add\", \"parameters\": {}}; {\"name\": \"look_up\", \"parameters\": {\"b\": 2}}",
     {"", "", {{"", "add", "{}"}, {"", "look_up", "{\"b\": 2}"}}}},
    {"{\"name\": \"Bob\", \"age\": 5}", {"", "{\"name\": \"Bob\", \"age\": 5}", {}}},
    {"{\"a\": {\"name\": \"add\"}}", {"", "{\"a\": {\"name\": \"add\"}}", {}}},
    {"{}", {"", "{}", {}}},
    {"Sure: {\"name\": \"add\", \"parameters\": {}}", {"", "Sure: {\"name\": \"add\", \"parameters\": {}}", {}}},
    {"<|python_tag|>print(1)", {"", "<|python_tag|>print(1)", {}}},
    {"{\"name\": \"add\", \"parameters\": {\"a\": 1", {"", "", {{"", "add", "{\"a\": 1"}}}},
    {"{\"name\": \"ad", {"", "{\"name\": \"ad", {}}},
};

const std::vector<Case> mistral_cases = {
    {"[TOOL_CALLS][{\"name\": \"add\", \"arguments\": {\"a\": 1}}]", {"", "", {{"", "add", "{\"a\": 1}"}}}},
    {"Wait. [TOOL_CALLS] [{\"name\": \"add\", \"arguments\": {\"a\": [1]}}, {\"id\": \"abcdef123\", \"name\": \"x\", "
     "\"arguments\": {}}] ok",
     {"", "Wait.ok", {{"", "add", "{\"a\": [1]}"}, {"abcdef123", "x", "{}"}}}},
    {"[TOOL_CALLS]{\"name\": \"add\", \"arguments\": {}}", {"", "", {{"", "add", "{}"}}}},
    {"[TOOL_CALLS][]", {"", "[TOOL_CALLS][]", {}}},
    {"[TOOL_CALLS][{\"name\": \"add\", \"arguments\": {}}", {"", "", {{"", "add", "{}"}}}},
    {"[TOOL", {"", "[TOOL", {}}},
    {"[1, 2]", {"", "[1, 2]", {}}},
};

const std::vector<Case> named_cases = {
    {"[TOOL_CALLS]add[ARGS]{\"a\": {\"b\": \"}\"}}", {"", "", {{"", "add", "{\"a\": {\"b\": \"}\"}}"}}}},
    {"Wait.\n[TOOL_CALLS]add[CALL_ID]abcdef123[ARGS]{} [TOOL_CALLS]x{\"c\": 1}\n",
     {"", "Wait.", {{"abcdef123", "add", "{}"}, {"", "x", "{\"c\": 1}"}}}},
    {"[TOOL_CALLS]add[ARGS]{\"a\": [1", {"", "", {{"", "add", "{\"a\": [1"}}}},
    {"[TOOL_CALLS]ad", {"", "[TOOL_CALLS]ad", {}}},
    {"[TOOL_CALLS] are marks, {you} know", {"", "[TOOL_CALLS] are marks, {you} know", {}}},
    {"[TOOL_CALLS][ARGS]{}", {"", "[TOOL_CALLS][ARGS]{}", {}}},
};

const std::vector<Case> generic_cases = {
    {"{\"tool_calls\": [{\"name\": \"add\", \"arguments\": {\"a\": 1}}]}", {"", "", {{"", "add", "{\"a\": 1}"}}}},
    {"{ \"tool_calls\" :\n[ {\"name\": \"add\", \"arguments\": {}} , {\"name\": \"other\", \"arguments\": {}} ] }\n",
     {"", "", {{"", "add", "{}"}, {"", "other", "{}"}}}},
    {"{\"name\": \"add\", \"arguments\": {}}", {"", "", {{"", "add", "{}"}}}},
    {"{\"name\": \"Bob\"}", {"", "{\"name\": \"Bob\"}", {}}},
    {"{\"tool_calls\": []}", {"", "{\"tool_calls\": []}", {}}},
    {"{\"tool_calls\": 5}", {"", "{\"tool_calls\": 5}", {}}},
    {"{\"tool_ca", {"", "{\"tool_ca", {}}},
    {"{\"tool _calls\": [", {"", "{\"tool _calls\": [", {}}},
    {"plain", {"", "plain", {}}},
};

const std::vector<Case> kimi_cases = {
    {"<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{\"a\": {\"b\": "
     "\"}\"}}<|tool_call_end|><|tool_calls_section_end|>",
     {"", "", {{"functions.add:0", "add", "{\"a\": {\"b\": \"}\"}}"}}}},
    {"I look. <|tool_calls_section_begin|>\n<|tool_call_begin|> functions.add:0 <|tool_call_argument_begin|> "
     "{}<|tool_call_end|>\n<|tool_call_begin|>functions.a.b:12<|tool_call_argument_begin|>{\"c\": 123456789012345678901234}"
     "<|tool_call_end|>\n<|tool_calls_section_end|> Done.",
     {"",
      "I look.Done.",
      {{"functions.add:0", "add", "{}"}, {"functions.a.b:12", "a.b", "{\"c\": 123456789012345678901234}"}}}},
    {"<|tool_calls_section_begin|><|tool_call_begin|>add<|tool_call_argument_begin|>{\"a\": [1",
     {"", "", {{"add", "add", "{\"a\": [1"}}}},
    {"<|tool_calls_section_begin|> is a mark", {"", "<|tool_calls_section_begin|> is a mark", {}}},
    {"<|tool_calls_section_begin|>add{}", {"", "<|tool_calls_section_begin|>add{}", {}}},
};

const std::vector<Case> seed_cases = {
    {"<seed:think>Add.</seed:think>\n<seed:tool_call>\n<function=add>\n<parameter=a>5</parameter>\n<parameter=b>[True, "
     "'x\\'y', None,]</parameter>\n<parameter=t>5 <b>\n\"</parameter>\n</function>\n</seed:tool_call>",
     {"Add.", "", {{"", "add", "{\"a\": 5, \"b\": [true, \"x'y\", null], \"t\": \"5 <b>\\n\\\"\"}"}}}},
    {"Two.\n<seed:tool_call>\n<function=look_up>\n</function>\n</seed:tool_call>\n<seed:tool_call>\n<function=add>\n"
     "<parameter=a>\n1\n</parameter>\n<parameter=o>null</parameter>\n<parameter=t>null</parameter>\n</function>\n"
     "</seed:tool_call>\nend",
     {"", "Two.end", {{"", "look_up", "{}"}, {"", "add", "{\"a\": 1, \"o\": null, \"t\": \"null\"}"}}}},
    {"<seed:tool_call><function=look_up><parameter=x>12345678901234567890123</parameter><parameter=y>Paris</parameter>"
     "<parameter=z>{\"k\": [1]}</parameter></function></seed:tool_call>",
     {"", "", {{"", "look_up", "{\"x\": 12345678901234567890123, \"y\": \"Paris\", \"z\": {\"k\": [1]}}"}}}},
    {"<seed:tool_call>{\"name\": \"add\", \"arguments\": {}}</seed:tool_call>", {"", "", {{"", "add", "{}"}}}},
    {"<seed:tool_call>\n<function=add>\n<parameter=a>5</para", {"", "", {{"", "add", "{"}}}},
    {"a <seed:tool_call>none", {"", "a <seed:tool_call>none", {}}},
    {"<seed:tool_call>\n<fun", {"", "<seed:tool_call>\n<fun", {}}},
};

const std::vector<Case> minimax_m1_cases = {
    {"<think>a</think>Wait.\n<tool_calls>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n{\"name\": \"look_up\", "
     "\"arguments\": {}}\n</tool_calls>\n",
     {"a", "Wait.", {{"", "add", "{\"a\": 1}"}, {"", "look_up", "{}"}}}},
    {"<tool_calls>[{\"name\": \"add\", \"arguments\": {}}, {\"name\": \"b\", \"arguments\": {}}]</tool_calls>",
     {"", "", {{"", "add", "{}"}, {"", "b", "{}"}}}},
    {"<tool_calls> is a mark", {"", "<tool_calls> is a mark", {}}},
};

const std::vector<Case> minimax_m2_cases = {
    {"Two.\n<minimax:tool_call>\n<invoke name=\"add\">\n<parameter name=\"a\">5</parameter>\n<parameter "
     "name=\"t\">7</parameter>\n</invoke>\n<invoke name=\"look_up\">\n</invoke>\n</minimax:tool_call>\n",
     {"", "Two.", {{"", "add", "{\"a\": 5, \"t\": \"7\"}"}, {"", "look_up", "{}"}}}},
    {"<minimax:tool_call>\n<invoke name=\"\">", {"", "<minimax:tool_call>\n<invoke name=\"\">", {}}},
    {"<minimax:tool_call>\n<invoke name=\"add\">\n</invoke>\nno more", {"", "no more", {{"", "add", "{}"}}}},
};

const std::vector<Case> gemma4_cases = {
    {"<|tool_call>call:add{a:1,b:[2,{c:<|\"|>}\"{,:<|\"|>}]}<tool_call|>",
     {"", "", {{"", "add", "{\"a\": 1, \"b\": [2, {\"c\": \"}\\\"{,:\"}]}"}}}},
    {"I look.\n<|tool_call>call:look_up{}<tool_call|><|tool_call>call:add{t:<|\"|>ä <b>\n<|\"|>}<tool_call|>",
     {"", "I look.", {{"", "look_up", "{}"}, {"", "add", "{\"t\": \"ä <b>\\n\"}"}}}},
    {"<|tool_call>call:add{ a : -1.5e3 , <|\"|>odd key<|\"|>:null,o:[],p:{},q:true,r:[[1],[]] }<tool_call|> Done.",
     {"",
      "Done.",
      {{"", "add", "{\"a\": -1.5e3, \"odd key\": null, \"o\": [], \"p\": {}, \"q\": true, \"r\": [[1], []]}"}}}},
    {"<|tool_call>call:add{t:word two,}<tool_call|>", {"", "", {{"", "add", "{\"t\": \"word two\"}"}}}},
    {"<|channel>thought\nAdd.<channel|><|tool_call>call:add{}<tool_call|>", {"Add.", "", {{"", "add", "{}"}}}},
    {"<|channel>thought\n<channel|>c", {"", "c", {}}},
    {"<|channel>thought\na\nb\n<channel|>c", {"a\nb", "c", {}}},
    // Broken off, by a limit for one.
    {"<|tool_call>call:add{a:1,t:<|\"|>half", {"", "", {{"", "add", "{\"a\": 1, \"t\": "}}}},
    {"x <|tool_call>call:ad", {"", "x <|tool_call>call:ad", {}}},
    {"x <|tool_c", {"", "x <|tool_c", {}}},
    // None.
    {"a <|tool_call>no call<tool_call|> b", {"", "a <|tool_call>no call<tool_call|> b", {}}},
    {"a <|tool_call>call:{}<tool_call|> b", {"", "a <|tool_call>call:{}<tool_call|> b", {}}},
    {"call:add{a:1}", {"", "call:add{a:1}", {}}},
};

const std::vector<Case> lfm2_cases = {
    {"<|tool_call_start|>[add(a=1, b=[True, {'c': (1, 2.5)}], t=\"x, \\\"y\\\")\")]<|tool_call_end|>Done.",
     {"", "Done.", {{"", "add", "{\"a\": 1, \"b\": [true, {\"c\": [1, 2.5]}], \"t\": \"x, \\\"y\\\")\"}"}}}},
    {"<|tool_call_start|>[add(), m.look_up(word='\\u00e4\\x41\\ud83d\\ude00', n=None, w=Paris)]<|tool_call_end|>",
     {"", "", {{"", "add", "{}"}, {"", "m.look_up", "{\"word\": \"\u00e4A\U0001F600\", \"n\": null, \"w\": \"Paris\"}"}}}},
    {"<|tool_call_start|>[{\"name\": \"add\", \"arguments\": {\"a\": 1}}]<|tool_call_end|>",
     {"", "", {{"", "add", "{\"a\": 1}"}}}},
    {"<|tool_call_start|>[add(a=1", {"", "", {{"", "add", "{"}}}},
    {"<|tool_call_start|>[add(1)]<|tool_call_end|>", {"", "<|tool_call_start|>[add(1)]<|tool_call_end|>", {}}},
    {"<|tool_call_start|>[1, 2]", {"", "<|tool_call_start|>[1, 2]", {}}},
};

const std::vector<Case> nemotron_cases = {
    {"Two.\n<TOOLCALL>[{\"name\": \"add\", \"arguments\": {\"a\": 5}}, {\"name\": \"look_up\", \"arguments\": "
     "{}}]</TOOLCALL>\n",
     {"", "Two.", {{"", "add", "{\"a\": 5}"}, {"", "look_up", "{}"}}}},
    {"<TOOLCALL>[{\"name\": \"add\", \"arguments\": {}}]</TOOLCALL>Done.", {"", "Done.", {{"", "add", "{}"}}}},
    {"<TOOLCALL>[1, 2]", {"", "<TOOLCALL>[1, 2]", {}}},
};

const std::vector<Case> glm_cases = {
    {"<think>a</think>\nTwo.\n<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>5</arg_value>\n<arg_key>t</arg_key>\n"
     "<arg_value>7 <b>\n</arg_key></arg_value>\n</tool_call>\n<tool_call>look_up\n</tool_call>",
     {"a", "Two.", {{"", "add", "{\"a\": 5, \"t\": \"7 <b>\\n</arg_key>\"}"}, {"", "look_up", "{}"}}}},
    // Later ones write no line ends.
    {"<tool_call>add<arg_key>a</arg_key><arg_value>5</arg_value></tool_call><tool_call>look_up</tool_call> Done.",
     {"", "Done.", {{"", "add", "{\"a\": 5}"}, {"", "look_up", "{}"}}}},
    {"<tool_call>{\"name\": \"add\", \"arguments\": {}}", {"", "", {{"", "add", "{}"}}}},
    {"<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>5</arg_va", {"", "", {{"", "add", "{"}}}},
    {"<tool_call>add\n<arg_k", {"", "<tool_call>add\n<arg_k", {}}},
    {"a <tool_call> is a mark", {"", "a <tool_call> is a mark", {}}},
    {"<tool_call>add\nno <tag>", {"", "<tool_call>add\nno <tag>", {}}},
    {"<tool_call><arg_key>", {"", "<tool_call><arg_key>", {}}},
};

const std::vector<Case> deepseek_cases = {
    {"Two.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{\"a\": \"<｜tool▁sep｜>{\"}<｜tool▁call▁end｜>"
     "<｜tool▁call▁begin｜>a:1<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     {"", "Two.", {{"", "add", "{\"a\": \"<｜tool▁sep｜>{\"}"}, {"", "a:1", "{}"}}}},
    {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{\"a\": [", {"", "", {{"", "add", "{\"a\": ["}}}},
    {"<｜tool▁calls▁begin｜>none", {"", "<｜tool▁calls▁begin｜>none", {}}},
    {"a <｜tool▁calls", {"", "a <｜tool▁calls", {}}},
};

const std::vector<Case> deepseek_v3_cases = {
    {"Two.\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{\"a\": \"```\"}\n```"
     "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>look_up\n```json\n{}\n```<｜tool▁call▁end｜>"
     "<｜tool▁calls▁end｜>",
     {"", "Two.", {{"", "add", "{\"a\": \"```\"}"}, {"", "look_up", "{}"}}}},
    {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n{}",
     {"", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n{}", {}}},
};

std::vector<std::pair<Style, std::vector<Case>>> all_cases() {
  std::vector<Case> granite;
  for (Case each : mistral_cases) {
    for (std::string* text : {&each.text, &each.expected.content}) {
      if (const std::size_t at = text->find("[TOOL_CALLS]"); at != std::string::npos) {
        text->replace(at, 12, "<|tool_call|>");
      }
    }
    granite.push_back(each);
  }
  return {{Style::hermes, hermes_cases},
          {Style::llama3, llama3_cases},
          {Style::mistral, mistral_cases},
          {Style::mistral_named, mistral_cases},
          {Style::mistral_named, named_cases},
          {Style::granite, granite},
          {Style::generic, generic_cases},
          {Style::kimi, kimi_cases},
          {Style::seed, seed_cases},
          {Style::minimax_m1, minimax_m1_cases},
          {Style::minimax_m2, minimax_m2_cases},
          {Style::lfm2, lfm2_cases},
          {Style::gemma4, gemma4_cases},
          {Style::nemotron, nemotron_cases},
          {Style::glm, glm_cases},
          {Style::deepseek, deepseek_cases},
          {Style::deepseek_v3, deepseek_v3_cases},
          {Style::harmony, harmony_cases}};
}

ParsedAnswer joined(const std::vector<AnswerDelta>& deltas) {
  ParsedAnswer answer;
  for (const AnswerDelta& delta : deltas) {
    EXPECT_FALSE(delta.text.empty());
    if (delta.kind == Kind::call) {
      EXPECT_EQ(delta.index, static_cast<std::int32_t>(answer.calls.size()));
      answer.calls.push_back({delta.id, delta.text, ""});
    } else if (delta.kind == Kind::arguments) {
      EXPECT_EQ(delta.index + 1, static_cast<std::int32_t>(answer.calls.size()));
      answer.calls.back().arguments += delta.text;
    } else {
      (delta.kind == Kind::content ? answer.content : answer.reasoning) += delta.text;
    }
  }
  return answer;
}

std::string shown(const ParsedAnswer& answer) {
  std::string text = "reasoning '" + answer.reasoning + "', content '" + answer.content + "'";
  for (const ToolCall& call : answer.calls) {
    text += ", call " + call.name + "(" + call.arguments + ") id '" + call.id + "'";
  }
  return text;
}

void append(std::vector<AnswerDelta>& deltas, std::vector<AnswerDelta> more) {
  deltas.insert(deltas.end(), more.begin(), more.end());
}

TEST(ToolCalls, WholeAnswers) {
  for (const auto& [style, cases] : all_cases()) {
    for (const Case& each : cases) {
      EXPECT_EQ(shown(parse_answer(each.text, format_of(style))), shown(each.expected)) << name(style) << ": " << each.text;
    }
  }
}

TEST(ToolCalls, CutAtEveryByte) {
  for (const auto& [style, cases] : all_cases()) {
    for (const Case& each : cases) {
      for (std::size_t cut = 0; cut <= each.text.size(); ++cut) {
        AnswerParser parser(format_of(style));
        std::vector<AnswerDelta> deltas = parser.add(each.text.substr(0, cut));
        append(deltas, parser.add(each.text.substr(cut)));
        append(deltas, parser.finish());
        ASSERT_EQ(shown(joined(deltas)), shown(each.expected)) << name(style) << ", cut at " << cut << ": " << each.text;
      }
      AnswerParser parser(format_of(style));
      std::vector<AnswerDelta> deltas;
      for (const char c : each.text) {
        append(deltas, parser.add({&c, 1}));
      }
      append(deltas, parser.finish());
      ASSERT_EQ(shown(joined(deltas)), shown(each.expected)) << name(style) << ", byte by byte: " << each.text;
      ASSERT_EQ(parser.calls(), static_cast<std::int32_t>(each.expected.calls.size()));
    }
  }
}

/// Two calls as `style` writes them, after a text if the style allows one.
std::string two_calls(Style style) {
  const std::string first = R"({"name": "add", "arguments": {"a": 1}})";
  const std::string second = R"({"name": "look_up", "arguments": {"b": "c"}})";
  switch (style) {
    case Style::generic:
      return "{\"tool_calls\": [" + first + ", " + second + "]}";
    case Style::cohere:
      return R"(Wait. <|START_ACTION|>[
    {"tool_call_id": "0", "tool_name": "add", "parameters": {"a": 1}},
    {"tool_call_id": "1", "tool_name": "look_up", "parameters": {"b": "c"}}
]<|END_ACTION|>)";
    case Style::apertus:
      return R"(Wait. <|tools_prefix|>[{"add": {"a": 1}}, {"look_up": {"b": "c"}}]<|tools_suffix|>)";
    case Style::deepseek_dsml:
      return "Wait. <｜DSML｜function_calls>\n<｜DSML｜invoke name=\"add\">\n"
             "<｜DSML｜parameter name=\"a\" string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
             "<｜DSML｜invoke name=\"look_up\">\n<｜DSML｜parameter name=\"b\" string=\"true\">c</｜DSML｜parameter>\n"
             "</｜DSML｜invoke>\n</｜DSML｜function_calls>";
    case Style::hermes:
      return "Wait. <tool_call>\n" + first + "\n</tool_call>\n<tool_call>\n" + second + "\n</tool_call>";
    case Style::llama3:
      return "<|python_tag|>" + first + "; " + second;
    case Style::mistral:
      return "Wait. [TOOL_CALLS][" + first + ", " + second + "]";
    case Style::mistral_named:
      return "Wait. [TOOL_CALLS]add[ARGS]{\"a\": 1}[TOOL_CALLS]look_up[CALL_ID]x[ARGS]{\"b\": \"c\"}";
    case Style::granite:
      return "Wait. <|tool_call|>[" + first + ", " + second + "]";
    case Style::kimi:
      return "Wait. <|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{\"a\": 1}"
             "<|tool_call_end|><|tool_call_begin|>functions.look_up:1<|tool_call_argument_begin|>{\"b\": \"c\"}"
             "<|tool_call_end|><|tool_calls_section_end|>";
    case Style::qwen_coder:
      return "Wait. <tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
             "<function=look_up>\n<parameter=b>\nc\n</parameter>\n</function>\n</tool_call>";
    case Style::seed:
      return "Wait. <seed:tool_call>\n<function=add>\n<parameter=a>1</parameter>\n</function>\n</seed:tool_call>\n"
             "<seed:tool_call>\n<function=look_up>\n<parameter=b>c</parameter>\n</function>\n</seed:tool_call>";
    case Style::minimax_m1:
      return "Wait. <tool_calls>\n" + first + "\n" + second + "\n</tool_calls>";
    case Style::minimax_m2:
      return "Wait. <minimax:tool_call>\n<invoke name=\"add\">\n<parameter name=\"a\">1</parameter>\n</invoke>\n"
             "<invoke name=\"look_up\">\n<parameter name=\"b\">c</parameter>\n</invoke>\n</minimax:tool_call>";
    case Style::lfm2:
      return "Wait. <|tool_call_start|>[add(a=1), look_up(b=\"c\")]<|tool_call_end|>";
    case Style::nemotron:
      return "Wait. <TOOLCALL>[" + first + ", " + second + "]</TOOLCALL>";
    case Style::glm:
      return "Wait. <tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>\n"
             "<tool_call>look_up\n<arg_key>b</arg_key>\n<arg_value>c</arg_value>\n</tool_call>";
    case Style::deepseek:
      return "Wait. <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>"
             "<｜tool▁call▁begin｜>look_up<｜tool▁sep｜>{\"b\": \"c\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    case Style::deepseek_v3:
      return "Wait. <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{\"a\": 1}\n```"
             "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>look_up\n```json\n{\"b\": \"c\"}\n```"
             "<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    case Style::gemma4:
      return "Wait. <|tool_call>call:add{a:1}<tool_call|><|tool_call>call:look_up{b:<|\"|>c<|\"|>}<tool_call|>";
    case Style::harmony:
      return "<|channel|>commentary<|message|>Wait.<|start|>assistant<|channel|>commentary to=functions.add "
             "<|constrain|>json<|message|>{\"a\": 1}<|call|><|start|>assistant<|channel|>commentary to=functions.look_up "
             "<|constrain|>json<|message|>{\"b\": \"c\"}<|call|>";
  }
  return "";
}

constexpr Style every_style[] = {Style::generic,     Style::hermes,  Style::llama3,     Style::mistral, Style::mistral_named,
                                 Style::granite,     Style::kimi,    Style::qwen_coder, Style::seed,    Style::minimax_m1,
                                 Style::minimax_m2,  Style::lfm2,    Style::nemotron,   Style::glm,     Style::deepseek,
                                 Style::deepseek_v3, Style::harmony, Style::gemma4};

TEST(ToolCalls, ACutNeverShowsHalfACall) {
  for (const Style style : every_style) {
    const std::string text = two_calls(style);
    for (std::size_t size = 0; size <= text.size(); ++size) {
      const ParsedAnswer answer = parse_answer(text.substr(0, size), format_of(style), true);
      EXPECT_TRUE(std::string("Wait. ").starts_with(answer.content))
          << name(style) << ", " << text.substr(0, size) << ": " << answer.content;
    }
    const ParsedAnswer whole = parse_answer(text, format_of(style), true);
    ASSERT_EQ(whole.calls.size(), 2u) << name(style);
    EXPECT_EQ(whole.calls[0].name + whole.calls[0].arguments, "add{\"a\": 1}") << name(style);
    EXPECT_EQ(whole.calls[1].name + whole.calls[1].arguments, "look_up{\"b\": \"c\"}") << name(style);
  }
}

TEST(ToolCalls, ACutShowsNoHalfOfAMarkAroundReasoning) {
  const AnswerFormat format = format_of(Style::hermes);
  EXPECT_EQ(parse_answer("\n<thi", format, true), (ParsedAnswer{"", "", {}}));
  EXPECT_EQ(parse_answer("<think>so </thi", format, true), (ParsedAnswer{"so", "", {}}));
  EXPECT_EQ(parse_answer("a <thi", format, true), (ParsedAnswer{"", "a <thi", {}})) << "inside a text it begins nothing";
}

TEST(ToolCalls, ACutAnswerInJsonStaysOne) {
  for (const Style style : {Style::generic, Style::llama3}) {
    for (const char* text :
         {"{\"result\": [1, 2", "{\"name\": \"Bob\", \"ag", "{\"a\": {\"name\": \"add\", ", "x {\"name"}) {
      EXPECT_EQ(shown(parse_answer(text, format_of(style), true)), shown({"", text, {}})) << name(style);
    }
  }
}

TEST(ToolCalls, OfSeveralCallsWhereOneMayComeTheFirstCounts) {
  for (const Style style : every_style) {
    AnswerFormat format = format_of(style);
    format.single_call = true;
    const ParsedAnswer answer = parse_answer(two_calls(style), format);
    ASSERT_EQ(answer.calls.size(), 1u) << name(style);
    EXPECT_EQ(answer.calls[0].name, "add");
    EXPECT_TRUE(answer.content.empty() || answer.content == "Wait.") << answer.content;
  }
}

TEST(ToolCalls, KnowsWhetherACallIsWhole) {
  AnswerParser parser(format_of(Style::hermes));
  parser.add("<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}");
  EXPECT_TRUE(parser.is_inside_call());
  parser.add("}</tool_call>");
  EXPECT_FALSE(parser.is_inside_call());
}

TEST(ToolCalls, WhatIsSureComesAtOnce) {
  AnswerParser parser(format_of(Style::hermes));
  EXPECT_EQ(parser.add("Let me"), (std::vector<AnswerDelta>{{Kind::content, "Let me", 0, ""}}));
  EXPECT_TRUE(parser.add(" ").empty());
  EXPECT_EQ(parser.add("see <tool"), (std::vector<AnswerDelta>{{Kind::content, " see", 0, ""}}));
  EXPECT_TRUE(parser.add("_call>{\"name\": \"ad").empty());
  EXPECT_EQ(parser.add("d\","), (std::vector<AnswerDelta>{{Kind::call, "add", 0, ""}}));
  EXPECT_EQ(parser.add(" \"arguments\": {\"a"), (std::vector<AnswerDelta>{{Kind::arguments, "{\"a", 0, ""}}));
  EXPECT_EQ(parser.add("\": 1}"), (std::vector<AnswerDelta>{{Kind::arguments, "\": 1}", 0, ""}}));
  EXPECT_TRUE(parser.add("}</tool_call>\n").empty());
  EXPECT_TRUE(parser.finish().empty());
}

TEST(ToolCalls, WithoutToolsNothingIsHeldBack) {
  AnswerFormat format;
  AnswerParser parser(format);
  EXPECT_EQ(parser.add("a <tool_call"), (std::vector<AnswerDelta>{{Kind::content, "a <tool_call", 0, ""}}));
  EXPECT_EQ(parser.add(" "), (std::vector<AnswerDelta>{{Kind::content, " ", 0, ""}}));
  format.splits_reasoning = false;
  EXPECT_EQ(parse_answer("<think>a</think>b", format), (ParsedAnswer{"", "<think>a</think>b", {}}));
}

TEST(ToolCalls, ReasoningThatThePromptBegan) {
  AnswerFormat format = format_of(Style::hermes);
  format.reasoning_is_open = true;
  EXPECT_EQ(parse_answer("\nHm.\n</think>\n\nYes", format), (ParsedAnswer{"Hm.", "Yes", {}}));
  EXPECT_EQ(parse_answer("Hm", format), (ParsedAnswer{"Hm", "", {}}));
}

TEST(ToolCalls, Ids) {
  std::set<std::string> ids;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::string id = tool_call_id(i * 0x9E3779B97F4A7C15ULL);
    EXPECT_EQ(id.size(), 9U);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 1000U);
}

TEST(ToolCalls, MarksThatAreControlTokensAreShown) {
  Vocabulary vocabulary = load_golden("gpt-2")->vocabulary();
  const std::vector<std::string> marks = {"<tool_call>", "[TOOL_CALLS]",      "<|python_tag|>",
                                          "</think>",    "<seed:think>",      "<|tool_call>",
                                          "<channel|>",  "<|tool_call_end|>", "<|tool_call_argument_begin|>"};
  const auto first = static_cast<std::int32_t>(vocabulary.tokens.size());
  for (const std::string& mark : marks) {
    vocabulary.tokens.push_back(mark);
    vocabulary.types.push_back(TokenType::control);
  }
  const auto tokenizer = Tokenizer::create(std::move(vocabulary));
  for (std::size_t i = 0; i < marks.size(); ++i) {
    EXPECT_EQ(tokenizer->token_bytes(first + static_cast<std::int32_t>(i)), marks[i]);
  }
}

}  // namespace
}  // namespace rocmforge::test
