#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "chat/chat_template.h"

namespace rocmforge {

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
};

/// The texts around a function's name and before its arguments, which are a JSON object. If there is an `id` mark, the name
/// is on its left. If there is a `name_prefix`, the id is the prefix, the name and a number.
struct NamedCallMarks {
  std::string_view begin{}, name_prefix{}, id{}, arguments{}, end{};
};

/// The texts around a function's name, and around the name and the value of each argument. Without `name_end`, the name ends
/// at its line's end or at the first tag. `value` comes before a value, on a line of its own.
struct TaggedCallMarks {
  std::string_view begin{}, name_end{}, parameter{}, parameter_name_end{}, parameter_end{}, end{};
  std::string_view value{};
};

/// The texts of a style. In every style, a call that begins with { is a JSON object.
struct ToolCallFormat {
  enum class Form : std::uint8_t { object, named, tagged, python, gemma };

  std::string_view name;
  std::string_view opening;                    ///< before the first call
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

  NamedCallMarks named{};
  TaggedCallMarks tagged{};
};

const ToolCallFormat& tool_call_format(ToolCallStyle style);
inline std::string_view name(ToolCallStyle style) { return tool_call_format(style).name; }

ToolCallStyle detect_tool_call_style(const ChatTemplate& chat_template);

}  // namespace rocmforge
