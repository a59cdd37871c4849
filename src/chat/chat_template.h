#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/work_budget.h"
#include "chat/json.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

namespace jinja {
class Template;
struct Limits;
}  // namespace jinja

/// The time here and now.
std::tm local_time();

/// A conversation to be answered, in the shape of OpenAI's API.
struct ChatRequest {
  /// An array of objects with `role`, `content` (text, parts, or null), `tool_calls`, `tool_call_id`, `name`,
  /// `reasoning_content`; other fields reach the template as they are.
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  /// Null, or an array of {"type": "function", "function": {...}}; an empty one reaches the template as it is.
  nlohmann::ordered_json tools;
  nlohmann::ordered_json arguments;  ///< null, or an object with more variables: "enable_thinking", "documents" ...
  bool add_generation_prompt = true;
  bool continue_final_message = true;  ///< an assistant's message at the end begins the answer; needs the line above
  std::function<std::tm()> clock = local_time;
  WorkBudget* budget = nullptr;  ///< of rendering; null: only the template's own limits hold
};

/// A stretch of a rendered conversation. Control tokens are recognised only in what the template itself wrote, so that
/// nothing that stands in messages, tools or arguments can become one. The roles that everybody uses count as the
/// template's own.
struct ChatSegment {
  std::string text;
  bool from_template = false;
  bool operator==(const ChatSegment&) const = default;
};

std::string text_of(std::span<const ChatSegment> segments);

/// The ids of a rendered conversation: BOS once where the model adds it and the template has none. Text is tokenized across
/// the borders of segments as the whole would be; only control tokens keep to their segment.
std::vector<std::int32_t> encode_chat(const Tokenizer& tokenizer, std::span<const ChatSegment> segments,
                                      WorkBudget* budget = nullptr);

/// What a template does with the parts of a conversation, found out by rendering small ones.
struct ChatAbilities {
  bool text_content = true;  ///< takes `content` as text; else as parts only
  bool system_role = true;
  bool developer_role = false;
  /// Roles whose content may be parts of text, which the template joins itself.
  struct Parts {
    bool user = false, system = false, assistant = false, tool = false;
  } parts;
  bool tools = false;                     ///< shows the tools to the model
  bool tool_calls = false;                ///< shows an assistant's calls
  bool tool_results = false;              ///< has a place for messages of role tool
  bool arguments_as_text = false;         ///< takes a call's arguments as JSON text, not as an object
  bool calls_with_empty_content = false;  ///< shows calls beside a content of ""
  bool calls_with_null_content = false;   ///< and beside one of null, as nothing
  bool thinking_switch = false;           ///< obeys `enable_thinking` or `thinking`
  /// What the template tells the model to begin calls with ("<tool_call>"), where it shows no calls itself.
  std::string call_mark;

  /// The model learns of the tools and how to call them from the template.
  [[nodiscard]] bool takes_tools() const { return tools && (tool_calls || !call_mark.empty()); }
  [[nodiscard]] bool takes_parts(std::string_view role) const;
};

/// What a model writes around its reasoning. In the harmony format (gpt-oss) the marks are those of the channels for
/// reasoning and for the final answer.
struct ReasoningMarks {
  std::string_view begin = "<think>", end = "</think>";
};

/// A conversation ready to be answered.
struct ChatPrompt {
  std::vector<ChatSegment> segments;
  /// The prompt ends inside a block of reasoning, so that the answer begins with reasoning.
  bool reasoning_is_open = false;
  ReasoningMarks reasoning{};
  bool in_channels = false;     ///< the answer is messages of the harmony format: "<|channel|>final<|message|>Hello"
  bool header_is_open = false;  ///< and begins with a header, not with a message's text
};

/// The chat template of a model. Immutable; safe to use from several threads.
class ChatTemplate {
 public:
  /// `bos` and `eos` are the texts of these tokens, empty where the model has none. Throws Error (with line and column)
  /// for a template that can't be read.
  explicit ChatTemplate(std::string source, std::string bos = "", std::string eos = "");

  /// What the template makes of the request as it is: the same text as transformers' apply_chat_template. Throws Error.
  [[nodiscard]] std::vector<ChatSegment> render(const ChatRequest& request) const;

  /// Steps that each of the small renderings may take which find out what the template can do; models' templates take
  /// less than a hundredth of it.
  static constexpr std::size_t probe_steps = 400'000;

  /// The same for a request in any of the forms that clients send, changed to what the template can take:
  /// - parts of text become one text, joined by line ends, where the template does not join them itself, or the other way
  ///   around; absent content becomes "", or null beside calls where the template wants it;
  /// - arguments of calls become objects, or texts; reasoning is named as templates name it;
  /// - without a role for the developer its messages are the system's; without one for the system its text goes before the
  ///   first question;
  /// - of tools, calls and results, what the template has no place for is described: tools and how to call them in the
  /// system
  ///   text, calls and results as JSON in messages (the style ToolCallStyle::generic);
  /// - an assistant's message at the end begins the answer, which goes on from there (answer_start.h).
  /// Throws Error for what is malformed or can't be expressed.
  [[nodiscard]] ChatPrompt prompt(ChatRequest request) const;

  [[nodiscard]] const std::string& source() const { return source_; }
  [[nodiscard]] const ChatAbilities& abilities() const { return abilities_; }
  [[nodiscard]] ReasoningMarks reasoning_marks() const;
  /// Answers are messages of the harmony format.
  [[nodiscard]] bool has_channels() const;

 private:
  [[nodiscard]] ChatAbilities find_abilities() const;
  [[nodiscard]] std::vector<ChatSegment> render(const ChatRequest& request, const jinja::Limits& limits) const;

  std::string source_, bos_, eos_;
  std::shared_ptr<const jinja::Template> template_;
  ChatAbilities abilities_;
};

/// The chat templates of a model: one, and some models have another for conversations with tools.
class ChatTemplates {
 public:
  ChatTemplates(ChatTemplate base, std::optional<ChatTemplate> tool_use)
      : base_(std::move(base)), tool_use_(std::move(tool_use)) {}

  /// The file's own templates; without one ChatML, where the vocabulary has its marks; else empty.
  static std::optional<ChatTemplates> of_model(const Tokenizer& tokenizer);
  /// A template from elsewhere, with the model's BOS and EOS.
  static ChatTemplates of_source(std::string source, const Tokenizer& tokenizer);

  [[nodiscard]] const ChatTemplate& choose(const ChatRequest& request) const;

 private:
  ChatTemplate base_;
  std::optional<ChatTemplate> tool_use_;
};

}  // namespace rocmforge
