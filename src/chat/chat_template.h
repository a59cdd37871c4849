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

#include "base/json.h"
#include "base/work_budget.h"
#include "tokenizer/answer_formats.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

namespace jinja {
class Template;
struct Limits;
}  // namespace jinja

/// The current local time.
std::tm local_time();

/// A conversation that is to be answered, in the form of OpenAI's API.
struct ChatRequest {
  /// An array of objects with `role`, `content` (text, parts, or null), `tool_calls`, `tool_call_id`, `name` and
  /// `reasoning_content`. Other fields are passed to the template unchanged.
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  /// Null, or an array of {"type": "function", "function": {...}}. An empty array is passed to the template unchanged.
  nlohmann::ordered_json tools;
  nlohmann::ordered_json arguments;  ///< null, or an object with further variables: "enable_thinking", "documents" ...
  bool add_generation_prompt = true;
  bool continue_final_message = true;  ///< the answer continues an assistant's last message, if add_generation_prompt is set
  std::function<std::tm()> clock = local_time;
  /// Stands for an image where the template takes texts alone, as text of the template; "": such a template has no place for
  /// images.
  std::string image_text{};
  std::string sound_text{};      ///< for a recording, likewise
  WorkBudget* budget = nullptr;  ///< for rendering; null: only the template's own limits apply
};

/// A part of a rendered conversation from one source. Control tokens are recognised only in text that the template itself
/// wrote, so that no text in messages, tools or arguments can become one. The usual roles count as text of the template.
struct ChatSegment {
  std::string text;
  bool from_template = false;
  bool operator==(const ChatSegment&) const = default;
};

std::string text_of(std::span<const ChatSegment> segments);

/// The ids of a rendered conversation. BOS is added if the model uses it and the template did not write it. Ordinary tokens
/// may contain a border between segments, as if the conversation were one text; control tokens may not.
std::vector<std::int32_t> encode_chat(const Tokenizer& tokenizer, std::span<const ChatSegment> segments,
                                      WorkBudget* budget = nullptr);

/// How a template handles the parts of a conversation, found by rendering small ones.
struct ChatAbilities {
  bool text_content = true;  ///< takes `content` as text; else only as parts
  bool system_role = true;
  bool developer_role = false;
  /// Roles whose content may consist of parts of text, which the template joins itself.
  struct Parts {
    bool user = false, system = false, assistant = false, tool = false;
  } parts;
  /// Roles in whose parts the template writes a mark for an image.
  struct Images {
    bool user = false, tool = false;
  } images;
  bool sounds = false;                    ///< writes a mark for a recording of the user
  bool tools = false;                     ///< shows the tools to the model
  bool tool_calls = false;                ///< shows the calls of an assistant
  bool tool_results = false;              ///< has a place for messages of role tool
  bool arguments_as_text = false;         ///< takes a call's arguments as JSON text, not as an object
  bool calls_with_empty_content = false;  ///< shows calls if the content is ""
  bool calls_with_null_content = false;   ///< shows calls if the content is null, and writes nothing for null
  std::uint32_t rules = 0;                ///< bit i: the template has rule i of chat_rules()
  bool thinking_switch = false;           ///< uses `enable_thinking` or `thinking`
  /// The text with which the template tells the model to begin calls ("<tool_call>"), if it shows no calls itself.
  std::string call_mark;
  /// The style in which the model writes calls, known by the template's marks.
  ToolCallStyle call_style = ToolCallStyle::generic;

  /// Whether the model learns from the template which tools there are and how to call them.
  [[nodiscard]] bool takes_tools() const { return tools && (tool_calls || !call_mark.empty()); }
  [[nodiscard]] bool takes_parts(std::string_view role) const;
};

/// A rendered conversation, ready to be answered.
struct ChatPrompt {
  std::vector<ChatSegment> segments;
  /// The prompt ends inside reasoning, so that the answer begins with reasoning.
  bool reasoning_is_open = false;
  ReasoningMarks reasoning{};
  bool in_channels = false;  ///< the answer consists of messages of the harmony format: "<|channel|>final<|message|>Hello"
  bool header_is_open = false;  ///< the answer begins with a header, not with the text of a message
};

/// The chat template of a model. Immutable: several threads may use it at the same time.
class ChatTemplate {
 public:
  /// `bos` and `eos` are the texts of these tokens, empty when the model has none. Throws Error with line and column for a
  /// template that can't be read.
  explicit ChatTemplate(std::string source, std::string bos = "", std::string eos = "");

  /// Renders the request unchanged: the same text as transformers' apply_chat_template. Throws Error.
  [[nodiscard]] std::vector<ChatSegment> render(const ChatRequest& request) const;

  /// The limit of steps for each small rendering that finds the template's abilities. The templates of models need less than
  /// a hundredth of it.
  static constexpr std::size_t probe_steps = 400'000;

  /// Renders a request in any of the forms that clients send, after it was changed to what the template can take:
  /// - If the template does not join parts of text itself, they become one text, joined by line ends. If it takes only
  ///   parts, a text becomes a part. Absent content becomes "", or null beside calls if the template shows these so.
  /// - Images stay where they are. Those of results, where the template shows none, move to the user's next message. A
  ///   template that takes texts alone gets ChatRequest::image_text in a line of the text for each.
  /// - Arguments of calls become objects or texts. Reasoning gets the names that templates use.
  /// - Without a developer role, its messages become the system's. Without a system role, its text is put in front of the
  ///   next message of the user.
  /// - Tools, calls and results without a place in the template are described: tools and how to call them in the system
  ///   text, calls and results as JSON in messages (the style ToolCallStyle::generic).
  /// - What the template refuses or leaves out is said in another way (chat_rules.h).
  /// - The answer continues an assistant's message at the end (answer_start.h).
  /// Throws Error for a malformed request and for one that can't be expressed.
  [[nodiscard]] ChatPrompt prompt(ChatRequest request) const;

  [[nodiscard]] const std::string& source() const { return source_; }
  [[nodiscard]] const ChatAbilities& abilities() const { return abilities_; }
  [[nodiscard]] ReasoningMarks reasoning_marks() const;
  /// Whether answers are messages of the harmony format.
  [[nodiscard]] bool has_channels() const;

 private:
  [[nodiscard]] ChatAbilities find_abilities() const;
  [[nodiscard]] std::vector<ChatSegment> render(const ChatRequest& request, const jinja::Limits& limits) const;

  std::string source_, bos_, eos_;
  std::shared_ptr<const jinja::Template> template_;
  ChatAbilities abilities_;
};

/// The chat templates of a model: one for all conversations, and in some models another for conversations with tools.
class ChatTemplates {
 public:
  ChatTemplates(ChatTemplate base, std::optional<ChatTemplate> tool_use)
      : base_(std::move(base)), tool_use_(std::move(tool_use)) {}

  /// The templates of the model's file. If it has none: ChatML if the vocabulary has its marks, else empty.
  static std::optional<ChatTemplates> of_model(const Tokenizer& tokenizer);
  /// A template from another source, with the model's BOS and EOS.
  static ChatTemplates of_source(std::string source, const Tokenizer& tokenizer);

  [[nodiscard]] const ChatTemplate& choose(const ChatRequest& request) const;

 private:
  ChatTemplate base_;
  std::optional<ChatTemplate> tool_use_;
};

}  // namespace rocmforge
