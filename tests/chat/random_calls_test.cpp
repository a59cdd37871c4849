// Random tools and dialogues: the answer of a model of each style is parsed whole, in pieces, and cut anywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/answer_parser.h"
#include "chat/chat_template_files.h"
#include "chat/written_calls.h"
#include "sanitizers.h"

namespace rocmforge::test {
namespace {

using nlohmann::ordered_json;
using Style = ToolCallStyle;

/// Tools, and a conversation in which some of them are called.
class RandomDialogue {
 public:
  explicit RandomDialogue(std::uint32_t seed) : random_(seed) {
    const int count = number(1, 3);
    for (int i = 0; i < count; ++i) {
      tools.push_back(
          {{"type", "function"},
           {"function", {{"name", "tool_" + std::to_string(i)}, {"description", "d"}, {"parameters", schema()}}}});
    }
    text = number(0, 2) == 0 ? "" : words();
    reasoning = number(0, 2) == 0 ? words() : "";
  }

  /// A call of one of the tools, with arguments that fit its schema.
  ordered_json call() {
    const ordered_json& function =
        tools[static_cast<std::size_t>(number(0, static_cast<int>(tools.size()) - 1))]["function"];
    ordered_json arguments = ordered_json::object();
    for (const auto& [name, schema] : function["parameters"]["properties"].items()) {
      arguments[name] = value(schema);
    }
    return {{"name", function["name"]}, {"arguments", std::move(arguments)}};
  }

  int number(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }

  ordered_json tools = ordered_json::array();
  std::string text, reasoning;

 private:
  ordered_json schema() {
    static const std::vector<ordered_json> kinds = {{{"type", "string"}},
                                                    {{"type", "integer"}},
                                                    {{"type", "number"}},
                                                    {{"type", "boolean"}},
                                                    {{"type", "array"}, {"items", {{"type", "integer"}}}},
                                                    {{"type", "object"},
                                                     {"properties", {{"x", {{"type", "string"}}}}},
                                                     {"required", {"x"}},
                                                     {"additionalProperties", false}},
                                                    {{"enum", {"red", "dark blue"}}}};
    static const std::vector<std::string> names = {"city", "n", "unit", "is_new", "list", "where"};
    ordered_json properties = ordered_json::object(), required = ordered_json::array();
    for (int i = number(0, 4); i > 0; --i) {
      properties[names[static_cast<std::size_t>(number(0, 5))]] = kinds[static_cast<std::size_t>(number(0, 6))];
    }
    for (const auto& [name, unused] : properties.items()) {
      required.push_back(name);
    }
    return {{"type", "object"}, {"properties", properties}, {"required", required}, {"additionalProperties", false}};
  }

  ordered_json value(const ordered_json& schema) {
    const std::string type = schema.value("type", "enum");
    if (type == "string") {
      return odd_text();
    }
    if (type == "integer") {
      return number(-100, 100);
    }
    if (type == "number") {
      return number(-100, 100) / 4.0;
    }
    if (type == "boolean") {
      return number(0, 1) == 1;
    }
    if (type == "array") {
      return std::vector<int>(static_cast<std::size_t>(number(0, 3)), number(0, 9));
    }
    return type == "object" ? ordered_json{{"x", odd_text()}} : schema["enum"][static_cast<std::size_t>(number(0, 1))];
  }

  /// Text similar to marks, without line ends at its ends, which tags may add.
  std::string odd_text() {
    static const std::vector<std::string> pieces = {
        "a",    "Paris", " ",   "\"", "\\",    "\n\n", "{",     "}",  "[",           "]",       "<",        ">", "/",
        "'",    ", ",    ":",   "ä",  "日",    "😀",    "<tool", "</", "</tool_call", "```json", "\"name\"", "5", "true",
        "null", "|",     "<|x", "｜", "<arg_", ")",    "(",     "="};
    std::string out = "x";
    for (int i = number(0, 8); i > 0; --i) {
      out += pieces[static_cast<std::size_t>(number(0, static_cast<int>(pieces.size()) - 1))];
    }
    return out + "y";
  }

  std::string words() {
    static const std::vector<std::string> pieces = {"Let", "me",   "see", "a < b", "{x}",
                                                    "[1]", "it's", "\n",  "日本",  "\"so\""};
    std::string out = "Well";
    for (int i = number(0, 6); i > 0; --i) {
      out += " " + pieces[static_cast<std::size_t>(number(0, static_cast<int>(pieces.size()) - 1))];
    }
    return out + ".";
  }

  std::mt19937 random_;
};

/// One random answer in one style.
struct WrittenAnswer {
  std::string text;   ///< as the model writes it
  std::string calls;  ///< the part of `text` that a grammar for required calls covers
  AnswerFormat format;
  ParsedAnswer expected;  ///< arguments as compact JSON
};

WrittenAnswer written_answer(Style style, RandomDialogue& dialogue) {
  WrittenAnswer answer;
  const bool is_harmony = style == Style::harmony;
  std::vector<std::string> calls;
  for (int i = dialogue.number(1, is_harmony ? 1 : 3); i > 0; --i) {
    const ordered_json call = dialogue.call();
    calls.push_back(R"({"name": )" + call["name"].dump() + R"(, "arguments": )" + call["arguments"].dump() + "}");
    answer.expected.calls.push_back({"", call["name"], call["arguments"].dump()});
  }
  answer.calls = written(style, calls);
  const bool is_marked = tool_call_format(style).is_marked;
  answer.expected.content = is_marked ? dialogue.text : "";
  answer.expected.reasoning = dialogue.reasoning;
  if (is_harmony) {
    const std::string next = "<|start|>assistant";
    answer.text = (dialogue.reasoning.empty() ? "" : "<|channel|>analysis<|message|>" + dialogue.reasoning + next) +
                  (dialogue.text.empty() ? "" : "<|channel|>commentary<|message|>" + dialogue.text + next) + answer.calls;
  } else {
    answer.text = (dialogue.reasoning.empty() ? "" : "<think>\n" + dialogue.reasoning + "\n</think>\n\n") +
                  answer.expected.content + answer.calls;
  }
  answer.format.has_tools = true;
  answer.format.style = style;
  answer.format.in_channels = answer.format.header_is_open = is_harmony;
  answer.format.reasoning =
      is_harmony ? ReasoningMarks{"<|channel|>analysis<|message|>", "<|channel|>final<|message|>"} : ReasoningMarks{};
  for (const ordered_json& tool : dialogue.tools) {
    answer.format.tool_names.push_back(tool["function"]["name"]);
  }
  answer.format.tools = std::make_shared<const ordered_json>(dialogue.tools);
  return answer;
}

/// With compact arguments, without ids.
ParsedAnswer compacted(ParsedAnswer answer) {
  for (ToolCall& call : answer.calls) {
    call.id.clear();
    call.arguments = ordered_json::parse(call.arguments).dump();
  }
  return answer;
}

void expect_same(const ParsedAnswer& answer, const ParsedAnswer& expected) {
  EXPECT_EQ(answer.reasoning, expected.reasoning);
  EXPECT_EQ(answer.content, expected.content);
  ASSERT_EQ(answer.calls.size(), expected.calls.size());
  for (std::size_t i = 0; i < answer.calls.size(); ++i) {
    EXPECT_EQ(answer.calls[i].name, expected.calls[i].name);
    EXPECT_EQ(answer.calls[i].arguments, expected.calls[i].arguments);
  }
}

/// The answer in pieces of up to 9 bytes.
ParsedAnswer streamed(const WrittenAnswer& answer, RandomDialogue& dialogue) {
  AnswerParser parser(answer.format);
  ParsedAnswer joined;
  const auto take = [&](std::vector<AnswerDelta> deltas) {
    for (AnswerDelta& delta : deltas) {
      switch (delta.kind) {
        case AnswerDelta::Kind::content:
          joined.content += delta.text;
          break;
        case AnswerDelta::Kind::reasoning:
          joined.reasoning += delta.text;
          break;
        case AnswerDelta::Kind::call:
          joined.calls.push_back({delta.id, delta.text, ""});
          break;
        case AnswerDelta::Kind::arguments:
          joined.calls.at(static_cast<std::size_t>(delta.index)).arguments += delta.text;
          break;
      }
    }
  };
  for (std::size_t at = 0; at < answer.text.size();) {
    const auto size = static_cast<std::size_t>(dialogue.number(1, 9));
    take(parser.add(std::string_view(answer.text).substr(at, size)));
    at += size;
  }
  take(parser.finish());
  return joined;
}

/// Checks that an answer cut at any length shows no part of a call as text.
void expect_no_half_call(const WrittenAnswer& answer, const ParsedAnswer& whole) {
  for (std::size_t size = 0; size < answer.text.size(); ++size) {
    const ParsedAnswer cut = parse_answer(std::string_view(answer.text).substr(0, size), answer.format, true);
    // The text may end with the start of a mark that turns out not to be one.
    ASSERT_TRUE(whole.content.starts_with(cut.content)) << "cut at " << size << ": " << cut.content;
    ASSERT_LE(cut.calls.size(), whole.calls.size());
    for (std::size_t i = 0; i < cut.calls.size(); ++i) {
      ASSERT_EQ(cut.calls[i].name, whole.calls[i].name) << "cut at " << size;
      ASSERT_TRUE(whole.calls[i].arguments.starts_with(cut.calls[i].arguments)) << "cut at " << size;
    }
  }
}

TEST(RandomCalls, OfEveryStyleComeBack) {
  std::vector<Style> styles(std::begin(styles_with_several_calls), std::end(styles_with_several_calls));
  styles.push_back(Style::harmony);
  constexpr std::uint32_t seeds = address_sanitizer ? 102 : 510;
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    const Style style = styles[seed % styles.size()];
    RandomDialogue dialogue(seed);
    const WrittenAnswer answer = written_answer(style, dialogue);
    SCOPED_TRACE(std::string(name(style)) + ", seed " + std::to_string(seed) + ": " + answer.text);
    WorkBudget budget(grammar_compile_units, "compiling the grammar");
    const ToolGrammar grammar = make_tool_grammar(style, dialogue.tools, {.is_required = true}, budget);
    ASSERT_TRUE(answer.calls.starts_with(grammar.opening));
    EXPECT_TRUE(accepts(grammar, answer.calls.substr(grammar.opening.size())));
    const ParsedAnswer whole = parse_answer(answer.text, answer.format);
    expect_same(compacted(whole), answer.expected);
    expect_same(streamed(answer, dialogue), whole);
    expect_no_half_call(answer, whole);
    if (HasFailure()) {
      return;
    }
  }
}

/// The template's output for an answer with these calls, after the prompt for it.
std::string shown_by(const ChatTemplate& chat_template, ChatRequest request, const ordered_json& answer) {
  const std::string prompt = text_of(chat_template.prompt(request).segments);
  request.messages.push_back(answer);
  request.add_generation_prompt = false;
  const std::string whole = text_of(chat_template.prompt(request).segments);
  EXPECT_TRUE(whole.starts_with(prompt)) << whole;
  return whole.substr(std::min(prompt.size(), whole.size()));
}

TEST(RandomCalls, AsTemplatesShowThemComeBack) {
  struct Family {
    const char* file;
    int most_calls;
  };
  constexpr Family families[] = {
      {"Qwen-Qwen3-0.6B", 3}, {"Qwen-Qwen2.5-7B-Instruct", 3},         {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", 3},
      {"GLM-4.6", 3},         {"meta-llama-Llama-3.1-8B-Instruct", 1}, {"mistralai-Mistral-Nemo-Instruct-2407", 3}};
  for (const Family& family : families) {
    const ChatTemplate chat_template = chat_template_of(family.file);
    for (std::uint32_t seed = 1000; seed < 1100; ++seed) {
      RandomDialogue dialogue(seed);
      ordered_json message = {{"role", "assistant"}, {"content", ""}, {"tool_calls", ordered_json::array()}};
      ParsedAnswer expected;
      for (int i = dialogue.number(1, family.most_calls); i > 0; --i) {
        ordered_json call = dialogue.call();
        expected.calls.push_back({"", call["name"], call["arguments"].dump()});
        message["tool_calls"].push_back(
            {{"id", tool_call_id(static_cast<std::uint64_t>(i))}, {"type", "function"}, {"function", std::move(call)}});
      }
      ChatRequest request;
      request.messages = {{{"role", "user"}, {"content", dialogue.text + "?"}}};
      request.tools = dialogue.tools;
      const std::string text = shown_by(chat_template, request, message);
      SCOPED_TRACE(std::string(family.file) + ", seed " + std::to_string(seed) + ": " + text);
      AnswerFormat format;
      format.has_tools = true;
      format.style = detect_tool_call_style(chat_template);
      for (const ordered_json& tool : dialogue.tools) {
        format.tool_names.push_back(tool["function"]["name"]);
      }
      format.tools = std::make_shared<const ordered_json>(dialogue.tools);
      ParsedAnswer answer = compacted(parse_answer(text, format));
      answer.content = "";  // the mark that ends the turn
      answer.reasoning = "";
      expect_same(answer, expected);
      if (HasFailure()) {
        return;
      }
    }
  }
}

}  // namespace
}  // namespace rocmforge::test
