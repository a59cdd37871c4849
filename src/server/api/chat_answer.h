#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/tool_calls.h"
#include "server/api/chat_prompt.h"
#include "server/api/chat_tools.h"
#include "server/api/generation.h"

namespace rocmforge {

/// A conversation's request: what the engine gets, and how its answers are taken apart.
struct AskedAnswer {
  ChatCall call;
  ToolUse use;
  Request request;  ///< but for max_tokens and logprobs
};

/// Reads the conversation, its tools, how tokens are drawn and what constrains them, by OpenAI's names. Throws ApiError.
AskedAnswer read_asked_answer(Fields& fields, Exchange& exchange, const Backend& backend);

/// Reads what is left of it where there is one answer: `stream` and the number of tokens. No field follows.
StreamOptions finish_asked_answer(Fields& fields, AskedAnswer& asked, Exchange& exchange, const Backend& backend);

/// `logprobs` and `top_logprobs`: how many other tokens go with each token of the answer, or -1.
std::int32_t read_logprobs(Fields& fields);

/// The body of another API's request, in the terms of chat completions, which is as large again.
Document take_chat_body(Exchange& exchange, Json (*in_terms_of_chat)(const Json& body));

/// A call as messages of chat completions have it.
Json call_json(const ToolCall& call);
/// A call's arguments, which stand in an object where they are none themselves, as Anthropic's documentation proposes.
Json arguments_json(const ToolCall& call);

/// Answers as messages: reasoning, content and calls of tools. Their form is the business of the class for each API.
class MessageGeneration : public Generation {
 public:
  /// `echo` begins each of the `count` messages.
  MessageGeneration(std::shared_ptr<Exchange> exchange, const Backend& backend, StreamOptions options,
                    std::string_view prefix, const ToolUse& use, const std::string& echo, int count);

  /// Of one message at its beginning.
  static std::int64_t bytes_of(const ToolUse& use, const std::string& echo);

 protected:
  struct Message {
    Message(const ToolUse& use, const std::string& echo) : parser(use.format), content(echo) { parser.add(use.opening); }

    AnswerParser parser;
    std::vector<AnswerDelta> news;  ///< of the last output; calls have their ids
    std::string content, reasoning;
    std::vector<ToolCall> calls;
    std::int64_t reasoning_tokens = 0;
  };

  void take(int index, StepOutput& output) override;
  [[nodiscard]] std::int64_t own_bytes() const override { return own_bytes_; }

  [[nodiscard]] const Message& message(int index) const { return messages_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] const std::vector<Message>& messages() const { return messages_; }
  /// All calls but one that the answer's end has cut.
  [[nodiscard]] std::span<const ToolCall> whole_calls(int index) const;
  /// The answer ended with calls, all of which are whole.
  [[nodiscard]] bool ends_with_calls(int index);

 private:
  std::int64_t own_bytes_ = 0;
  std::vector<Message> messages_;
};

}  // namespace rocmforge
