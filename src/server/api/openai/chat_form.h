#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/api/answers.h"
#include "server/api/fields.h"
#include "server/api/generation.h"
#include "service/reading.h"
#include "service/stream.h"
#include "service/turn.h"

namespace rocmforge {

/// What a request for chat completions asks for.
struct ChatAsked {
  Turn turn{};
  StreamOptions options{};
  int count = 1;       ///< answers
  std::string echo{};  ///< the beginning of each message, which the client sent
};

/// Reads all fields that chat completions have. Throws ApiError and ServiceError.
ChatAsked read_chat(Fields& fields, Reading& reading, const Backend& backend);

/// Writes answers in the form of chat completions, whether a server sends them or a function returns them.
class ChatForm {
 public:
  /// `answers` and `messages`, one for each of them, outlive this.
  ChatForm(Answers& answers, const std::vector<AnswerMessage>& messages, const ChatAsked& asked);

  /// The events of an output, which has been added to the answer and its message.
  std::vector<Json> events(int index, const StepOutput& output);
  /// After all answers have ended.
  [[nodiscard]] std::vector<Json> last_events() const;
  /// The whole answer, whose member "choices" is null.
  [[nodiscard]] Json envelope() const;
  /// One of the choices; "logprobs" is null.
  [[nodiscard]] Json entry(int index) const;
  /// The member of an entry that logprobs() replaces; "" for none.
  [[nodiscard]] std::string_view logprobs_name() const { return has_logprobs_ ? "logprobs" : ""; }
  TextPieces logprobs(int index);

 private:
  [[nodiscard]] Json chunk(int index, Json delta) const;
  [[nodiscard]] std::string_view finish_of(int index) const;
  [[nodiscard]] Json counts() const;
  void add_logprobs(AnswerChoice& state, bool last, Json& entry) const;
  [[nodiscard]] AnswerChoice& choice(int index) const { return answers_.choices[static_cast<std::size_t>(index)]; }
  [[nodiscard]] const AnswerMessage& message(int index) const { return messages_[static_cast<std::size_t>(index)]; }

  Answers& answers_;
  const std::vector<AnswerMessage>& messages_;
  std::string echo_;
  bool has_logprobs_, include_usage_;
};

}  // namespace rocmforge
