#include "chat/tool_call_styles.h"

#include <string>

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

// In the order of ToolCallStyle.
constexpr std::array<ToolCallFormat, 18> formats = {{
    {.name = "generic", .opening = "", .is_marked = false, .before = "{\"tool_calls\": [", .between = ", ", .after = "]}"},
    {.name = "hermes",
     .opening = "<tool_call>",
     .closings = {"</tool_call>"},
     .before = "\n",
     .between = "\n</tool_call>\n<tool_call>\n",
     .after = "\n</tool_call>",
     .opens_each = true},
    {.name = "llama3", .opening = "<|python_tag|>", .is_marked = false, .between = "; "},
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
     .closings = {"</tool_call>"},
     .form = Form::tagged,
     .before = "\n",
     .between = "\n</tool_call>\n<tool_call>\n",
     .after = "\n</tool_call>",
     .opens_each = true,
     .tagged = function_tags},
    {.name = "seed",
     .opening = "<seed:tool_call>",
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
     .named = {.arguments = " <|constrain|>json<|message|>"}},
    {.name = "gemma4",
     .opening = "<|tool_call>",
     .closings = {"<tool_call|>"},
     .form = Form::gemma,
     .between = "<tool_call|><|tool_call>",
     .after = "<tool_call|>",
     .opens_each = true,
     .named = {.begin = "call:"},
     .tagged = {.parameter_end = "<|\"|>"}},
}};

/// A template has this style if its source contains `text` and `also`.
struct Sign {
  std::string_view text;
  ToolCallStyle style;
  std::string_view also{};
};

// The first match counts.
constexpr std::array<Sign, 20> signs = {{
    {"<|channel|>commentary", ToolCallStyle::harmony},
    {"<|tool_call>", ToolCallStyle::gemma4},
    {"[TOOL_CALLS]", ToolCallStyle::mistral_named, "[ARGS]"},
    {"[TOOL_CALLS]", ToolCallStyle::mistral},
    {"<seed:tool_call>", ToolCallStyle::seed},
    {"<minimax:tool_call>", ToolCallStyle::minimax_m2},
    {"<|tool_calls_section_begin|>", ToolCallStyle::kimi},
    {"<|im_system|>tool_declare", ToolCallStyle::kimi},
    {"<|tool_call_start|>", ToolCallStyle::lfm2},
    {"<|tool_list_start|>", ToolCallStyle::lfm2},
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

}  // namespace

const ToolCallFormat& tool_call_format(ToolCallStyle style) { return formats[static_cast<std::size_t>(style)]; }

ToolCallStyle detect_tool_call_style(const ChatTemplate& chat_template) {
  const std::string& source = chat_template.source();
  const auto has = [&](std::string_view text) { return source.find(text) != std::string::npos; };
  if (!chat_template.abilities().takes_tools()) {
    return ToolCallStyle::generic;
  }
  for (const Sign& sign : signs) {
    if (has(sign.text) && has(sign.also)) {
      return sign.style;
    }
  }
  return ToolCallStyle::generic;
}

}  // namespace rocmforge
