#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace rocmforge {

// The one table of the texts with which models mark the parts of their answers. Templates are recognised by it, grammars and
// parsers are made from it, and the tokenizer shows its control tokens.

/// The form in which a model writes calls of functions:
/// - hermes (also Qwen 2.5 and 3): `<tool_call>{"name": "f", "arguments": {...}}</tool_call>` for each call;
/// - llama3: the whole answer is `{"name": "f", "parameters": {...}}`, perhaps after `<|python_tag|>`; several calls are
///   separated by "; ";
/// - mistral: `[TOOL_CALLS][{"name": "f", "arguments": {...}}, ...]`;
/// - mistral_named: `[TOOL_CALLS]f[ARGS]{...}` for each call, perhaps with `[CALL_ID]id` before `[ARGS]`; both mistral
///   styles accept answers of either form;
/// - granite: `<|tool_call|>[{"name": "f", "arguments": {...}}, ...]`;
/// - kimi (Kimi K2): `<|tool_calls_section_begin|>`, then for each call
///   `<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{...}<|tool_call_end|>`, then
///   `<|tool_calls_section_end|>`; `functions.f:0` is the id of the call;
/// - qwen_coder: `<tool_call><function=f><parameter=a>1</parameter></function></tool_call>` for each call;
/// - seed (Seed-OSS): the same in `<seed:tool_call>`;
/// - minimax_m1: `<tool_calls>`, a line `{"name": "f", "arguments": {...}}` for each call, `</tool_calls>`;
/// - minimax_m2: `<minimax:tool_call>`, `<invoke name="f"><parameter name="a">1</parameter></invoke>` for each call,
///   `</minimax:tool_call>`;
/// - lfm2: `<|tool_call_start|>[f(a=1, b="x"), ...]<|tool_call_end|>`, calls in Python's notation;
/// - nemotron (Nemotron Nano v2): `<TOOLCALL>[{"name": "f", "arguments": {...}}, ...]</TOOLCALL>`;
/// - glm (GLM 4.5 and later): for each call `<tool_call>f`, for each argument `<arg_key>a</arg_key>` and
///   `<arg_value>1</arg_value>` on lines of their own, `</tool_call>`;
/// - deepseek (DeepSeek V3.1): `<｜tool▁calls▁begin｜>`, then for each call
///   `<｜tool▁call▁begin｜>f<｜tool▁sep｜>{...}<｜tool▁call▁end｜>`, then `<｜tool▁calls▁end｜>`;
/// - deepseek_v3 (DeepSeek V3 and R1): the same with `function<｜tool▁sep｜>f`, and {...} between lines "```json" and "```";
/// - gemma4: `<|tool_call>call:f{a:1,b:<|"|>x<|"|>}<tool_call|>` for each call;
/// - harmony (gpt-oss): a message `<|channel|>commentary to=functions.f <|constrain|>json<|message|>{...}`, which ends the
///   answer;
/// - cohere (Command R7B, Command A): `<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {...}},
///   ...]<|END_ACTION|>`;
/// - apertus: `<|tools_prefix|>[{"f": {...}}, ...]<|tools_suffix|>`;
/// - deepseek_dsml (DeepSeek V3.2): `<｜DSML｜function_calls>`, for each call `<｜DSML｜invoke name="f">`, for each argument
///   `<｜DSML｜parameter name="a" string="true">x</｜DSML｜parameter>` (string="false" before JSON), `</｜DSML｜invoke>`,
///   then
///   `</｜DSML｜function_calls>`;
/// - generic: the whole answer is `{"tool_calls": [{"name": "f", "arguments": {...}}, ...]}` or one such call. This is the
///   form that ChatTemplate::prompt asks for when the template has no place for tools.
enum class ToolCallStyle : std::uint8_t {
  generic,
  hermes,
  llama3,
  mistral,
  mistral_named,
  granite,
  kimi,
  qwen_coder,
  seed,
  minimax_m1,
  minimax_m2,
  lfm2,
  nemotron,
  glm,
  deepseek,
  deepseek_v3,
  harmony,
  gemma4,
  cohere,
  apertus,
  deepseek_dsml,
};

/// The texts around a function's name and before its arguments, which are a JSON object. If there is an `id` mark, the name
/// is on its left. If there is a `name_prefix`, the id is the prefix, the name and a number.
struct NamedCallMarks {
  std::string_view begin{}, name_prefix{}, id{}, arguments{}, end{};
};

/// The texts around a function's name, and around the name and the value of each argument. Without `name_end`, the name ends
/// at its line's end or at the first tag. `value` comes before a value, on a line of its own. If there is a
/// `string_name_end`, it ends the name of an argument whose value is a text, and `parameter_name_end` that of any other.
struct TaggedCallMarks {
  std::string_view begin{}, name_end{}, parameter{}, parameter_name_end{}, parameter_end{}, end{};
  std::string_view value{}, string_name_end{};
};

/// The names of the members of a call that is a JSON object. Models write `id` first, if they write one.
struct ObjectCallKeys {
  std::string_view name = "name", arguments = "arguments", id{};
};

/// The texts of a style. In every style, a call that begins with { is a JSON object, and one that begins with the first tag
/// of `tagged` is tagged.
struct ToolCallFormat {
  /// keyed: a JSON object whose only member has the function's name and is its arguments.
  enum class Form : std::uint8_t { object, named, tagged, python, gemma, keyed };

  std::string_view name;
  std::string_view opening;          ///< before the first call
  std::string_view other_opening{};  ///< another opening, which some models write
  /// Begins a call without an opening, and is part of it. Where calls have no mark: how an answer begins that is a call.
  std::string_view bare{};
  std::array<std::string_view, 2> closings{};  ///< after a call, after the last one
  Form form = Form::object;
  bool is_list = false;     ///< calls are between [ and ]
  bool is_section = false;  ///< several calls may follow each other before the last closing
  bool is_marked = true;    ///< a call begins with the opening; else the answer begins with a call

  // The text that the model writes, including blanks: between the opening and the first call, between calls, and after the
  // last.
  std::string_view before{}, between{}, after{};
  bool is_single = false;   ///< a call ends the answer
  bool opens_each = false;  ///< each call has an opening of its own, which is part of `between`

  ObjectCallKeys keys{};
  NamedCallMarks named{};
  TaggedCallMarks tagged{};
  std::array<std::string_view, 2> tokens{};  ///< further control tokens of the format
};

const ToolCallFormat& tool_call_format(ToolCallStyle style);
inline std::string_view name(ToolCallStyle style) { return tool_call_format(style).name; }

/// The marks that a model writes around its reasoning, and around the text of its answer. In the harmony format (gpt-oss)
/// those of reasoning are the channels of reasoning and of the final answer.
struct ReasoningMarks {
  std::string_view begin = "<think>", end = "</think>";
  std::string_view text_begin{}, text_end{};
};

/// The marks of a message of the harmony format: before its header, the parts of the header, before its text, and at its
/// end, which says what the model waits for.
namespace harmony_marks {
inline constexpr std::string_view start = "<|start|>", channel = "<|channel|>", recipient = "to=", function = "functions.",
                                  constrain = "<|constrain|>", message = "<|message|>", end = "<|end|>", call = "<|call|>",
                                  last = "<|return|>";
}  // namespace harmony_marks

/// The marks of the model to which this chat template belongs.
ReasoningMarks reasoning_marks_of(std::string_view template_source);
/// Whether answers of this template's model are messages of the harmony format.
bool has_answer_channels(std::string_view template_source);

/// The first style whose marks the source of a template contains; generic if there is none.
ToolCallStyle tool_call_style_of(std::string_view template_source);

/// The texts <...> and [...] of all marks, each once: control tokens that are part of an answer's text, because its parts
/// can only be told apart by them.
const std::vector<std::string_view>& answer_mark_tokens();

}  // namespace rocmforge
