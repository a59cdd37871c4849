#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_parser.h"
#include "server/api/conversation_fields.h"
#include "server/api/generation.h"
#include "service/chat_prompt.h"
#include "service/stream.h"
#include "service/turn.h"

namespace rocmforge {

/// Makes the request for an answer to a conversation. Reads what all APIs share: `reasoning_format`, sampling and
/// constraints. `request` has what the API's own fields say already. Throws ApiError and ServiceError.
Turn read_turn(Fields& fields, Conversation conversation, Request request, Reading& reading, const Backend& backend,
               const ApiFields& api = {});

/// Renders a conversation whose answer is not asked for. Images are as in read_turn(): seen, or shown as text.
ChatCall render_request(Fields& fields, Conversation conversation, Reading& reading, const Backend& backend);

/// Names the tools whose schema or syntax does not bind the answer in its header X-Relaxed-Tools.
void tell_relaxed_tools(const Turn& turn, HttpExchange& exchange);

/// Answers how many tokens a request's prompt has, in the member `input_tokens` of `answer`.
void send_input_tokens(Fields& fields, Conversation conversation, HttpExchange& exchange, const Backend& backend,
                       Json answer);

/// Reads the remaining fields of a request for one answer: `stream` and the number of tokens. Checks that no other field is
/// left.
StreamOptions finish_turn(Fields& fields, Turn& turn, HttpExchange& exchange, const Backend& backend,
                          const ApiFields& api = {});

/// `logprobs` and `top_logprobs`: how many other tokens are listed with each token of the answer, or -1.
std::int32_t read_logprobs(Fields& fields);

/// A call in the form of chat completions' messages.
Json call_json(const ToolCall& call);
/// A call's arguments as an object. Text that is no object is wrapped in one, as Anthropic's documentation proposes.
Json arguments_json(const ToolCall& call);

/// The messages of `count` answers. `echo` is put at the beginning of each, `id` makes the ids of their calls.
std::vector<AnswerMessage> new_messages(const Turn& turn, const std::string& echo, const std::string& id, int count);
/// The answer ended with calls, and none was cut.
bool ends_with_calls(const AnswerState& answer, const AnswerMessage& message);

/// Answers as messages: reasoning, content and tool calls. A subclass for each API writes its form.
class MessageGeneration : public Generation {
 public:
  /// `echo` is put at the beginning of each of the `count` messages.
  MessageGeneration(std::shared_ptr<HttpExchange> exchange, const Backend& backend, StreamOptions options,
                    std::string_view prefix, const Turn& turn, const std::string& echo, int count);

  /// The memory of one message at its beginning.
  static std::int64_t bytes_of(const Turn& turn, const std::string& echo);

 protected:
  void take(int index, StepOutput& output) override;
  [[nodiscard]] std::int64_t own_bytes() const override { return own_bytes_; }

  [[nodiscard]] const AnswerMessage& message(int index) const { return messages_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] const std::vector<AnswerMessage>& messages() const { return messages_; }
  [[nodiscard]] bool ends_with_calls(int index) { return rocmforge::ends_with_calls(choice(index), message(index)); }

 private:
  std::int64_t own_bytes_ = 0;
  std::vector<AnswerMessage> messages_;
};

}  // namespace rocmforge
