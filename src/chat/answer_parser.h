#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_template.h"
#include "chat/tool_call_styles.h"

namespace rocmforge {

/// An id of nine letters and digits, which every template accepts. Equal numbers give equal ids.
std::string tool_call_id(std::uint64_t random);

/// The properties of an answer that are known before it begins.
struct AnswerFormat {
  bool splits_reasoning = true;    ///< <think>...</think> at the beginning is reasoning, not content
  bool reasoning_is_open = false;  ///< ChatPrompt::reasoning_is_open
  ReasoningMarks reasoning{};      ///< ChatPrompt::reasoning
  bool in_channels = false;        ///< ChatPrompt::in_channels
  bool header_is_open = false;     ///< ChatPrompt::header_is_open
  bool has_tools = false;          ///< the answer may contain calls
  bool single_call = false;        ///< at most one call: the text after it is dropped
  ToolCallStyle style = ToolCallStyle::generic;
  /// In styles without marks (llama3, generic), JSON is a call only if it names one of these functions.
  std::vector<std::string> tool_names{};
  /// Null or as in ChatRequest: the types of arguments, for styles that write all values as text.
  std::shared_ptr<const nlohmann::ordered_json> tools{};
};

/// A piece of an answer.
struct AnswerDelta {
  enum class Kind {
    content,
    reasoning,
    call,       ///< a call begins: `text` is the function's name, `id` the model's own id or ""
    arguments,  ///< the next piece of its arguments, as JSON text
  };
  Kind kind = Kind::content;
  std::string text;
  std::int32_t index = 0;  ///< the number of the call, from 0
  std::string id;
  bool operator==(const AnswerDelta&) const = default;
};

class AnswerReader;

/// Splits an answer into content, reasoning and calls while it arrives. Text that may become a mark, or white space that a
/// call may follow, is held back. White space at the ends of reasoning and before a call is removed. Text that looks like a
/// call but is none becomes content. The joined pieces do not depend on where the text was cut.
class AnswerParser {
 public:
  explicit AnswerParser(AnswerFormat format);
  ~AnswerParser();
  AnswerParser(const AnswerParser&) = delete;
  AnswerParser& operator=(const AnswerParser&) = delete;
  AnswerParser(AnswerParser&&) noexcept;
  AnswerParser& operator=(AnswerParser&&) noexcept;

  std::vector<AnswerDelta> add(std::string_view text);
  /// Ends the answer and returns the pieces that were held back. `is_cut`: a limit ended the answer, not the model. Then
  /// text that may be the beginning of a call, of its mark or of a mark of reasoning is dropped, because a part of these is
  /// of no use to the reader.
  std::vector<AnswerDelta> finish(bool is_cut = false);
  [[nodiscard]] std::int32_t calls() const;
  /// Whether a call was returned whose end has not arrived.
  [[nodiscard]] bool is_inside_call() const;

 private:
  std::unique_ptr<AnswerReader> reader_;
};

struct ToolCall {
  std::string id;  ///< "" when the model wrote none
  std::string name;
  std::string arguments;  ///< JSON text
  bool operator==(const ToolCall&) const = default;
};

struct ParsedAnswer {
  std::string reasoning, content;
  std::vector<ToolCall> calls;
  bool operator==(const ParsedAnswer&) const = default;
};

/// Splits a whole answer.
ParsedAnswer parse_answer(std::string_view text, const AnswerFormat& format, bool is_cut = false);

}  // namespace rocmforge
