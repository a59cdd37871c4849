#include "tokenizer/answer_formats.h"

#include <algorithm>

namespace rocmforge {
namespace {

using Form = ToolCallFormat::Form;

constexpr NamedCallMarks mistral_marks = {.id = "[CALL_ID]", .arguments = "[ARGS]"};
constexpr NamedCallMarks kimi_marks = {.begin = "<|tool_call_begin|>",
                                       .name_prefix = "functions.",
                                       .arguments = "<|tool_call_argument_begin|>",
                                       .end = "<|tool_call_end|>"};
constexpr NamedCallMarks deepseek_marks = {.begin = "<\uFF5Ctool\u2581call\u2581begin\uFF5C>",
                                           .arguments = "<\uFF5Ctool\u2581sep\uFF5C>",
                                           .end = "<\uFF5Ctool\u2581call\u2581end\uFF5C>"};
constexpr NamedCallMarks deepseek_v3_marks = {
    .begin = "<\uFF5Ctool\u2581call\u2581begin\uFF5C>function<\uFF5Ctool\u2581sep\uFF5C>",
    .arguments = "\n```json\n",
    .end = "\n```<\uFF5Ctool\u2581call\u2581end\uFF5C>"};
constexpr std::string_view deepseek_begin = "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>";
constexpr std::string_view deepseek_end = "<\uFF5Ctool\u2581calls\u2581end\uFF5C>";
constexpr TaggedCallMarks key_tags = {"", "", "<arg_key>", "</arg_key>", "</arg_value>", "</tool_call>", "<arg_value>"};
constexpr TaggedCallMarks function_tags = {"<function=", ">", "<parameter=", ">", "</parameter>", "</function>"};
constexpr TaggedCallMarks invoke_tags = {"<invoke name=\"", "\">", "<parameter name=\"", "\">", "</parameter>", "</invoke>"};

constexpr std::string_view dsml = "\uFF5CDSML\uFF5C";
constexpr TaggedCallMarks dsml_tags = {.begin = "<\uFF5CDSML\uFF5Cinvoke name=\"",
                                       .name_end = "\">",
                                       .parameter = "<\uFF5CDSML\uFF5Cparameter name=\"",
                                       .parameter_name_end = "\" string=\"false\">",
                                       .parameter_end = "</\uFF5CDSML\uFF5Cparameter>",
                                       .end = "</\uFF5CDSML\uFF5Cinvoke>",
                                       .string_name_end = "\" string=\"true\">"};

// In the order of ToolCallStyle.
constexpr std::array<ToolCallFormat, 21> formats = {{
    {.name = "generic",
     .opening = "",
     .other_opening = "<tool_call>",
     .bare = "{\"tool_calls\"",
     .closings = {"</tool_call>"},
     .is_marked = false,
     .before = "{\"tool_calls\": [",
     .between = ", ",
     .after = "]}"},
    {.name = "hermes",
     .opening = "<tool_call>",
     .bare = "<function=",
     .closings = {"</tool_call>"},
     .before = "\n",
     .between = "\n</tool_call>\n<tool_call>\n",
     .after = "\n</tool_call>",
     .opens_each = true,
     .tagged = function_tags},
    {.name = "llama3",
     .opening = "<|python_tag|>",
     .bare = "{\"name\"",
     .is_marked = false,
     .between = "; ",
     .keys = {.arguments = "parameters"}},
    {.name = "mistral",
     .opening = "[TOOL_CALLS]",
     .form = Form::named,
     .is_list = true,
     .before = "[",
     .between = ", ",
     .after = "]",
     .named = mistral_marks},
    {.name = "mistral-named",
     .opening = "[TOOL_CALLS]",
     .form = Form::named,
     .is_list = true,
     .between = "[TOOL_CALLS]",
     .opens_each = true,
     .named = mistral_marks},
    {.name = "granite", .opening = "<|tool_call|>", .is_list = true, .before = "[", .between = ", ", .after = "]"},
    {.name = "kimi",
     .opening = "<|tool_calls_section_begin|>",
     .closings = {kimi_marks.end, "<|tool_calls_section_end|>"},
     .form = Form::named,
     .is_section = true,
     .after = "<|tool_calls_section_end|>",
     .named = kimi_marks},
    {.name = "qwen-coder",
     .opening = "<tool_call>",
     .bare = "<function=",
     .closings = {"</tool_call>"},
     .form = Form::tagged,
     .before = "\n",
     .between = "\n</tool_call>\n<tool_call>\n",
     .after = "\n</tool_call>",
     .opens_each = true,
     .tagged = function_tags},
    {.name = "seed",
     .opening = "<seed:tool_call>",
     .bare = "<function=",
     .closings = {"</seed:tool_call>"},
     .form = Form::tagged,
     .before = "\n",
     .between = "\n</seed:tool_call>\n<seed:tool_call>\n",
     .after = "\n</seed:tool_call>",
     .opens_each = true,
     .tagged = function_tags},
    {.name = "minimax-m1",
     .opening = "<tool_calls>",
     .closings = {"</tool_calls>"},
     .is_list = true,
     .is_section = true,
     .before = "\n",
     .between = "\n",
     .after = "\n</tool_calls>"},
    {.name = "minimax-m2",
     .opening = "<minimax:tool_call>",
     .bare = "<invoke name=\"",
     .closings = {"</minimax:tool_call>"},
     .form = Form::tagged,
     .is_section = true,
     .before = "\n",
     .between = "\n",
     .after = "\n</minimax:tool_call>",
     .tagged = invoke_tags},
    {.name = "lfm2",
     .opening = "<|tool_call_start|>",
     .closings = {"<|tool_call_end|>"},
     .form = Form::python,
     .is_list = true,
     .before = "[",
     .between = ", ",
     .after = "]<|tool_call_end|>"},
    {.name = "nemotron",
     .opening = "<TOOLCALL>",
     .closings = {"</TOOLCALL>"},
     .is_list = true,
     .before = "[",
     .between = ", ",
     .after = "]</TOOLCALL>"},
    {.name = "glm",
     .opening = "<tool_call>",
     .form = Form::tagged,
     .between = "\n<tool_call>",
     .opens_each = true,
     .tagged = key_tags},
    {.name = "deepseek",
     .opening = deepseek_begin,
     .closings = {deepseek_marks.end, deepseek_end},
     .form = Form::named,
     .is_section = true,
     .after = deepseek_end,
     .named = deepseek_marks},
    {.name = "deepseek-v3",
     .opening = deepseek_begin,
     .closings = {deepseek_v3_marks.end.substr(1), deepseek_end},
     .form = Form::named,
     .is_section = true,
     .between = "\n",
     .after = deepseek_end,
     .named = deepseek_v3_marks},
    {.name = "harmony",
     .opening = "<|channel|>commentary to=functions.",
     .form = Form::named,
     .is_single = true,
     .named = {.arguments = " <|constrain|>json<|message|>"},
     .tokens = {harmony_marks::start}},
    {.name = "gemma4",
     .opening = "<|tool_call>",
     .closings = {"<tool_call|>"},
     .form = Form::gemma,
     .between = "<tool_call|><|tool_call>",
     .after = "<tool_call|>",
     .opens_each = true,
     .named = {.begin = "call:"},
     .tagged = {.parameter_end = "<|\"|>"}},
    {.name = "cohere",
     .opening = "<|START_ACTION|>",
     .closings = {"<|END_ACTION|>"},
     .is_list = true,
     .before = "[\n    ",
     .between = ",\n    ",
     .after = "\n]<|END_ACTION|>",
     .keys = {.name = "tool_name", .arguments = "parameters", .id = "tool_call_id"}},
    {.name = "apertus",
     .opening = "<|tools_prefix|>",
     .closings = {"<|tools_suffix|>"},
     .form = Form::keyed,
     .is_list = true,
     .before = "[",
     .between = ", ",
     .after = "]<|tools_suffix|>"},
    {.name = "deepseek-dsml",
     .opening = "<\uFF5CDSML\uFF5Cfunction_calls>",
     .bare = dsml_tags.begin,
     .closings = {"</\uFF5CDSML\uFF5Cfunction_calls>"},
     .form = Form::tagged,
     .is_section = true,
     .before = "\n",
     .between = "\n",
     .after = "\n</\uFF5CDSML\uFF5Cfunction_calls>",
     .tagged = dsml_tags,
     .tokens = {dsml}},
}};

/// A template has this style if its source contains `text` and `also`.
struct Sign {
  std::string_view text;
  ToolCallStyle style;
  std::string_view also{};
};

// The first match counts.
constexpr std::array<Sign, 24> signs = {{
    {"<|channel|>commentary", ToolCallStyle::harmony},
    {"<|tool_call>", ToolCallStyle::gemma4},
    {"<|START_ACTION|>", ToolCallStyle::cohere},
    {"<|tools_prefix|>", ToolCallStyle::apertus},
    {dsml, ToolCallStyle::deepseek_dsml, "function_calls"},
    {"[TOOL_CALLS]", ToolCallStyle::mistral_named, "[ARGS]"},
    {"[TOOL_CALLS]", ToolCallStyle::mistral},
    {"<seed:tool_call>", ToolCallStyle::seed},
    {"<minimax:tool_call>", ToolCallStyle::minimax_m2},
    {"<|tool_calls_section_begin|>", ToolCallStyle::kimi},
    {"<|im_system|>tool_declare", ToolCallStyle::kimi},
    {"<|tool_call_start|>", ToolCallStyle::lfm2},
    {"<|tool_list_start|>", ToolCallStyle::lfm2},
    {"List of tools: ", ToolCallStyle::lfm2, "<|im_start|>"},
    {"<|tool_call|>", ToolCallStyle::granite},
    {"<TOOLCALL>", ToolCallStyle::nemotron},
    {"<tool_calls>", ToolCallStyle::minimax_m1},
    {deepseek_begin, ToolCallStyle::deepseek_v3, "```json"},
    {deepseek_begin, ToolCallStyle::deepseek},
    {"<tool_call>", ToolCallStyle::glm, "<arg_key>"},
    {"<tool_call>", ToolCallStyle::qwen_coder, "<function="},
    {"<tool_call>", ToolCallStyle::hermes},
    {"<|python_tag|>", ToolCallStyle::llama3},
    {"\"parameters\": ", ToolCallStyle::llama3},
}};

/// The marks of models whose templates contain `sign`.
struct ReasoningRow {
  std::string_view sign;
  ReasoningMarks marks;
};

constexpr std::string_view channel_sign = "<|channel|>analysis<|message|>";

// The first match counts; without one, the marks are <think> and </think>.
constexpr std::array<ReasoningRow, 7> reasoning_rows = {{
    {"<|channel>thought", {"<|channel>thought", "<channel|>"}},
    {channel_sign, {channel_sign, "<|channel|>final<|message|>"}},
    {"<seed:think>", {"<seed:think>", "</seed:think>"}},
    {"[THINK]", {"[THINK]", "[/THINK]"}},
    {"<|START_THINKING|>", {"<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"}},
    {"<|inner_prefix|>", {"<|inner_prefix|>", "<|inner_suffix|>"}},
    {"<think>", {}},
}};

/// Adds the parts <...> and [...] of a mark that it does not have yet.
void add_tokens(std::string_view mark, std::vector<std::string_view>& tokens) {
  for (std::size_t i = 0; i < mark.size(); ++i) {
    const char close = mark[i] == '<' ? '>' : mark[i] == '[' ? ']' : '\0';
    const std::size_t end = close == '\0' ? std::string_view::npos : mark.find(close, i);
    if (end == std::string_view::npos || end < i + 2) {
      continue;
    }
    const std::string_view token = mark.substr(i, end + 1 - i);
    if (std::ranges::find(tokens, token) == tokens.end()) {
      tokens.push_back(token);
    }
    i = end;
  }
}

std::vector<std::string_view> all_mark_tokens() {
  std::vector<std::string_view> tokens;
  const auto add = [&](auto... marks) { (add_tokens(marks, tokens), ...); };
  for (const ToolCallFormat& format : formats) {
    const NamedCallMarks& named = format.named;
    const TaggedCallMarks& tagged = format.tagged;
    add(format.opening, format.other_opening, format.closings[0], format.closings[1], format.before, format.after);
    add(named.begin, named.id, named.arguments, named.end, tagged.begin, tagged.parameter, tagged.parameter_end, tagged.end,
        tagged.value, tagged.parameter_name_end);
    for (const std::string_view token : format.tokens) {
      if (!token.empty()) {
        tokens.push_back(token);
      }
    }
  }
  for (const ReasoningRow& row : reasoning_rows) {
    add(row.marks.begin, row.marks.end, row.marks.text_begin, row.marks.text_end);
  }
  return tokens;
}

}  // namespace

const ToolCallFormat& tool_call_format(ToolCallStyle style) { return formats[static_cast<std::size_t>(style)]; }

ToolCallStyle tool_call_style_of(std::string_view template_source) {
  const auto found = std::ranges::find_if(signs, [&](const Sign& sign) {
    return template_source.find(sign.text) != std::string_view::npos &&
           template_source.find(sign.also) != std::string_view::npos;
  });
  return found == signs.end() ? ToolCallStyle::generic : found->style;
}

ReasoningMarks reasoning_marks_of(std::string_view template_source) {
  const auto found = std::ranges::find_if(
      reasoning_rows, [&](const ReasoningRow& row) { return template_source.find(row.sign) != std::string_view::npos; });
  return found == reasoning_rows.end() ? ReasoningMarks{} : found->marks;
}

bool has_answer_channels(std::string_view template_source) {
  return template_source.find(channel_sign) != std::string_view::npos;
}

const std::vector<std::string_view>& answer_mark_tokens() {
  static const std::vector<std::string_view> tokens = all_mark_tokens();
  return tokens;
}

}  // namespace rocmforge
