#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "chat/tool_call_styles.h"
#include "chat/tool_grammar.h"
#include "grammar/automaton_states.h"
#include "grammar/byte_automaton.h"

// Calls as models of each style write them, for tests of their parsers and grammars.

namespace rocmforge::test {

constexpr ToolCallStyle styles_with_several_calls[] = {
    ToolCallStyle::generic,  ToolCallStyle::hermes,        ToolCallStyle::llama3,     ToolCallStyle::mistral,
    ToolCallStyle::granite,  ToolCallStyle::mistral_named, ToolCallStyle::kimi,       ToolCallStyle::qwen_coder,
    ToolCallStyle::seed,     ToolCallStyle::minimax_m1,    ToolCallStyle::minimax_m2, ToolCallStyle::lfm2,
    ToolCallStyle::nemotron, ToolCallStyle::glm,           ToolCallStyle::deepseek,   ToolCallStyle::deepseek_v3,
    ToolCallStyle::gemma4,   ToolCallStyle::cohere,        ToolCallStyle::apertus,    ToolCallStyle::deepseek_dsml};

/// Whether the whole text is one of the grammar.
inline bool accepts(const ToolGrammar& grammar, const std::string& text) {
  WorkBudget budget(grammar_compile_units, "compiling the grammar");
  AutomatonStates states(std::make_shared<const ByteAutomaton>(grammar.grammar, budget));
  AutomatonStates::State state = states.start();
  for (const char c : text) {
    states.allow_work(1'000'000);
    state = states.next(state, static_cast<std::uint8_t>(c));
  }
  return states.accepts(state);
}

inline std::string with_key(std::string text, ToolCallStyle style) {
  const std::string from = "\"arguments\"";
  for (std::size_t at = text.find(from); style == ToolCallStyle::llama3 && at != std::string::npos; at = text.find(from)) {
    text.replace(at, from.size(), "\"parameters\"");
  }
  return text;
}

/// A call in tags.
inline std::string tagged(const nlohmann::ordered_json& call, const std::string& begin, const std::string& end_of_name,
                          const std::string& parameter, const std::string& end) {
  std::string text = begin + call.at("name").get<std::string>() + end_of_name + "\n";
  for (const auto& [key, value] : call.at("arguments").items()) {
    text += parameter + key + end_of_name + (value.is_string() ? value.get<std::string>() : value.dump()) + "</parameter>\n";
  }
  return text + end;
}

inline std::string as_python(const nlohmann::ordered_json& call) {
  std::string text = call.at("name").get<std::string>() + "(";
  for (const auto& [key, value] : call.at("arguments").items()) {
    const std::string written = value.is_boolean() ? (value.get<bool>() ? "True" : "False") : value.dump();
    text += (text.ends_with('(') ? "" : ", ") + key + "=" + written;
  }
  return text + ")";
}

inline std::string gemma_value(const nlohmann::ordered_json& value) {
  if (value.is_string()) {
    return "<|\"|>" + value.get<std::string>() + "<|\"|>";
  }
  if (!value.is_structured()) {
    return value.dump();
  }
  std::string text = value.is_object() ? "{" : "[";
  for (const auto& [key, part] : value.items()) {
    text += (text.size() == 1 ? "" : ",") + (value.is_object() ? key + ":" : "") + gemma_value(part);
  }
  return text + (value.is_object() ? "}" : "]");
}

inline std::string with_keys(const nlohmann::ordered_json& call) {
  std::string text = call.at("name").get<std::string>() + "\n";
  for (const auto& [key, value] : call.at("arguments").items()) {
    text += "<arg_key>" + key + "</arg_key>\n<arg_value>" + (value.is_string() ? value.get<std::string>() : value.dump()) +
            "</arg_value>\n";
  }
  return text + "</tool_call>";
}

inline std::string as_dsml(const nlohmann::ordered_json& call) {
  std::string text = "<\uFF5CDSML\uFF5Cinvoke name=\"" + call.at("name").get<std::string>() + "\">\n";
  for (const auto& [key, value] : call.at("arguments").items()) {
    text += "<\uFF5CDSML\uFF5Cparameter name=\"" + key + "\" string=\"" + (value.is_string() ? "true" : "false") + "\">" +
            (value.is_string() ? value.get<std::string>() : value.dump()) + "</\uFF5CDSML\uFF5Cparameter>\n";
  }
  return text + "</\uFF5CDSML\uFF5Cinvoke>";
}

/// One call in a style whose calls are no JSON objects with the usual keys.
inline std::string one_call(ToolCallStyle style, const nlohmann::ordered_json& call, std::size_t index) {
  if (style == ToolCallStyle::glm) {
    return with_keys(call);
  }
  if (style == ToolCallStyle::deepseek) {
    return "<\uFF5Ctool\u2581call\u2581begin\uFF5C>" + call.at("name").get<std::string>() + "<\uFF5Ctool\u2581sep\uFF5C>" +
           call.at("arguments").dump() + "<\uFF5Ctool\u2581call\u2581end\uFF5C>";
  }
  if (style == ToolCallStyle::deepseek_v3) {
    return "<\uFF5Ctool\u2581call\u2581begin\uFF5C>function<\uFF5Ctool\u2581sep\uFF5C>" +
           call.at("name").get<std::string>() + "\n```json\n" + call.at("arguments").dump() +
           "\n```<\uFF5Ctool\u2581call\u2581end\uFF5C>";
  }
  if (style == ToolCallStyle::harmony) {
    return call.at("name").get<std::string>() + " <|constrain|>json<|message|>" + call.at("arguments").dump();
  }
  if (style == ToolCallStyle::kimi) {
    return "<|tool_call_begin|>functions." + call.at("name").get<std::string>() + ":" + std::to_string(index) +
           "<|tool_call_argument_begin|>" + call.at("arguments").dump() + "<|tool_call_end|>";
  }
  if (style == ToolCallStyle::lfm2) {
    return as_python(call);
  }
  if (style == ToolCallStyle::cohere) {
    return R"({"tool_call_id": ")" + std::to_string(index) + R"(", "tool_name": )" + call.at("name").dump() +
           R"(, "parameters": )" + call.at("arguments").dump() + "}";
  }
  if (style == ToolCallStyle::apertus) {
    return nlohmann::ordered_json{{call.at("name").get<std::string>(), call.at("arguments")}}.dump();
  }
  if (style == ToolCallStyle::deepseek_dsml) {
    return as_dsml(call);
  }
  if (style == ToolCallStyle::gemma4) {
    return "call:" + call.at("name").get<std::string>() + gemma_value(call.at("arguments"));
  }
  return style == ToolCallStyle::minimax_m2 ? tagged(call, "<invoke name=\"", "\">", "<parameter name=\"", "</invoke>")
                                            : tagged(call, "<function=", ">", "<parameter=", "</function>");
}

/// The same for the styles that only the table describes.
inline std::string written_by_table(ToolCallStyle style, const std::vector<std::string>& calls) {
  const ToolCallFormat& format = tool_call_format(style);
  std::string text = std::string(format.opening) + std::string(format.before);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    text += i == 0 ? "" : format.between;
    const bool as_json = style == ToolCallStyle::minimax_m1 || style == ToolCallStyle::nemotron;
    text += as_json ? calls[i] : one_call(style, nlohmann::ordered_json::parse(calls[i]), i);
  }
  return text + std::string(format.after);
}

/// The answer to a request that needs calls of `calls`, as a model of that style writes it.
inline std::string written(ToolCallStyle style, const std::vector<std::string>& calls) {
  if (style >= ToolCallStyle::kimi) {
    return written_by_table(style, calls);
  }
  std::string text;
  for (const std::string& call : calls) {
    const bool first = text.empty();
    switch (style) {
      case ToolCallStyle::hermes:
        text += (first ? "<tool_call>\n" : "\n<tool_call>\n") + call + "\n</tool_call>";
        break;
      case ToolCallStyle::llama3:
        text += (first ? "" : "; ") + call;
        break;
      case ToolCallStyle::mistral_named: {
        const auto parsed = nlohmann::ordered_json::parse(call);
        const std::string arguments = call.substr(call.find(": {") + 2);
        text += "[TOOL_CALLS]" + parsed.at("name").get<std::string>() + "[ARGS]" + arguments.substr(0, arguments.size() - 1);
        break;
      }
      default:
        text += (first ? "" : ", ") + call;
        break;
    }
  }
  switch (style) {
    case ToolCallStyle::mistral:
      return "[TOOL_CALLS][" + text + "]";
    case ToolCallStyle::granite:
      return "<|tool_call|>[" + text + "]";
    case ToolCallStyle::generic:
      return "{\"tool_calls\": [" + text + "]}";
    default:
      return with_key(text, style);
  }
}

}  // namespace rocmforge::test
