#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "chat/chat_template.h"

namespace rocmforge {

/// How a model writes calls of functions:
/// - hermes (also Qwen 2.5 and 3): `<tool_call>{"name": "f", "arguments": {...}}</tool_call>`, again for each call;
/// - llama3: the whole answer is `{"name": "f", "parameters": {...}}`, perhaps after `<|python_tag|>`; several with "; ";
/// - mistral: `[TOOL_CALLS][{"name": "f", "arguments": {...}}, ...]`;
/// - mistral_named: `[TOOL_CALLS]f[ARGS]{...}`, again for each call, perhaps with `[CALL_ID]id` before `[ARGS]`; answers of
///   either mistral style are understood in both;
/// - granite: `<|tool_call|>[{"name": "f", "arguments": {...}}, ...]`;
/// - kimi (Kimi K2): `<|tool_calls_section_begin|>`, for each call
/// `<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>
///   {...}<|tool_call_end|>`, then `<|tool_calls_section_end|>`; `functions.f:0` is the call's id;
/// - qwen_coder: `<tool_call><function=f><parameter=a>1</parameter></function></tool_call>`, again for each call;
/// - seed (Seed-OSS): the same in `<seed:tool_call>`;
/// - minimax_m1: `<tool_calls>`, a line `{"name": "f", "arguments": {...}}` for each call, `</tool_calls>`;
/// - minimax_m2: `<minimax:tool_call>`, `<invoke name="f"><parameter name="a">1</parameter></invoke>` for each call,
///   `</minimax:tool_call>`;
/// - lfm2: `<|tool_call_start|>[f(a=1, b="x"), ...]<|tool_call_end|>`, calls as Python writes them;
/// - nemotron (Nemotron Nano v2): `<TOOLCALL>[{"name": "f", "arguments": {...}}, ...]</TOOLCALL>`;
/// - glm (GLM 4.5 and later): `<tool_call>f`, on lines of their own `<arg_key>a</arg_key>` and `<arg_value>1</arg_value>`
/// for
///   each argument, `</tool_call>`, again for each call;
/// - deepseek (DeepSeek V3.1): `<｜tool▁calls▁begin｜>`, `<｜tool▁call▁begin｜>f<｜tool▁sep｜>{...}<｜tool▁call▁end｜>` for
/// each
///   call, `<｜tool▁calls▁end｜>`;
/// - deepseek_v3 (DeepSeek V3 and R1): the same with `function<｜tool▁sep｜>f` and {...} between lines "```json" and "```";
/// - gemma4: `<|tool_call>call:f{a:1,b:<|"|>x<|"|>}<tool_call|>`, again for each call;
/// - harmony (gpt-oss): a message `<|channel|>commentary to=functions.f <|constrain|>json<|message|>{...}`, which ends the
///   answer;
/// - generic: the whole answer is `{"tool_calls": [{"name": "f", "arguments": {...}}, ...]}` or one such call; what
///   ChatTemplate::prompt asks for where the template has no place for tools.
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

/// What stands around a function's name and before its arguments, a JSON object. The name may be left of an id's mark;
/// behind a prefix it and a number are the call's id.
struct NamedCallMarks {
  std::string_view begin{}, name_prefix{}, id{}, arguments{}, end{};
};

/// What stands around a function's name and around each of its arguments' names and values. Without name_end the name's line
/// ends, or the first tag begins. `value`, on a line of its own, stands before a value.
struct TaggedCallMarks {
  std::string_view begin{}, name_end{}, parameter{}, parameter_name_end{}, parameter_end{}, end{};
  std::string_view value{};
};

/// A style's texts. A call that begins with { is a JSON object in every style.
struct ToolCallFormat {
  enum class Form : std::uint8_t { object, named, tagged, python, gemma };

  std::string_view name;
  std::string_view opening;                    ///< before the first call
  std::array<std::string_view, 2> closings{};  ///< behind a call, behind the last one
  Form form = Form::object;
  bool is_list = false;     ///< calls stand in [ ]
  bool is_section = false;  ///< several calls may follow each other before the last closing
  bool is_marked = true;    ///< a call needs the opening; else it begins with the answer

  // What the model writes, blanks included, between the opening and the first call, between calls and behind the last.
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
