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

/// Nine letters and digits: an id that every template takes. Equal numbers give equal ids.
std::string tool_call_id(std::uint64_t random);

/// What is known before an answer begins.
struct AnswerFormat {
  bool splits_reasoning = true;    ///< <think>...</think> at the beginning is reasoning, not content
  bool reasoning_is_open = false;  ///< ChatPrompt::reasoning_is_open
  ReasoningMarks reasoning{};      ///< ChatPrompt::reasoning
  bool in_channels = false;        ///< ChatPrompt::in_channels
  bool header_is_open = false;     ///< ChatPrompt::header_is_open
  bool has_tools = false;          ///< calls may come
  bool single_call = false;        ///< at most one: what follows the first is dropped
  ToolCallStyle style = ToolCallStyle::generic;
  /// Where a call is not marked (llama3, generic), JSON is one only if it names one of these functions.
  std::vector<std::string> tool_names{};
  /// As in ChatRequest, or null: the types of arguments in the styles that write all of them as text.
  std::shared_ptr<const nlohmann::ordered_json> tools{};
};

/// A piece of an answer.
struct AnswerDelta {
  enum class Kind {
    content,
    reasoning,
    call,       ///< a call begins: `text` is the function's name, `id` what the model called it, if it did
    arguments,  ///< the next piece of its arguments, JSON text
  };
  Kind kind = Kind::content;
  std::string text;
  std::int32_t index = 0;  ///< which call
  std::string id;
  bool operator==(const AnswerDelta&) const = default;
};

class AnswerReader;

/// Takes an answer apart while it comes. Text that may turn out to be a mark, or white space that a call would end, is held
/// back. Reasoning and the text before a call lose the white space at their ends. What looks like a call but is none stays
/// content. The pieces joined do not depend on where the text was cut.
class AnswerParser {
 public:
  explicit AnswerParser(AnswerFormat format);
  ~AnswerParser();
  AnswerParser(const AnswerParser&) = delete;
  AnswerParser& operator=(const AnswerParser&) = delete;
  AnswerParser(AnswerParser&&) noexcept;
  AnswerParser& operator=(AnswerParser&&) noexcept;

  std::vector<AnswerDelta> add(std::string_view text);
  /// What was held back. `is_cut`: the answer ends because of a limit and not because the model ended it. Then what may be
  /// the beginning of a call, even of its mark or of one around reasoning, is dropped: half of these is no text for the
  /// reader.
  std::vector<AnswerDelta> finish(bool is_cut = false);
  [[nodiscard]] std::int32_t calls() const;
  /// A call has been given out whose end has not come.
  [[nodiscard]] bool is_inside_call() const;

 private:
  std::unique_ptr<AnswerReader> reader_;
};

struct ToolCall {
  std::string id;  ///< "" where the model gave none
  std::string name;
  std::string arguments;  ///< JSON text
  bool operator==(const ToolCall&) const = default;
};

struct ParsedAnswer {
  std::string reasoning, content;
  std::vector<ToolCall> calls;
  bool operator==(const ParsedAnswer&) const = default;
};

/// The same for a whole answer.
ParsedAnswer parse_answer(std::string_view text, const AnswerFormat& format, bool is_cut = false);

}  // namespace rocmforge
