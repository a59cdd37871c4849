#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_parser.h"
#include "service/loop.h"
#include "service/model.h"
#include "service/turn.h"

namespace rocmforge {

/// The log probabilities of an answer's tokens. They are sent with the text of their tokens, so
/// that the texts of the sent tokens together are the sent text.
class PendingLogprobs {
 public:
  /// Adds a drawn token and its bytes.
  void add(TokenLogprobs logprobs, std::size_t bytes);
  /// Returns those whose text is within the first `text_bytes` of the answer; at the end also one that began before the cut.
  std::vector<TokenLogprobs> take(std::size_t text_bytes, bool last);

 private:
  struct Entry {
    TokenLogprobs logprobs;
    std::size_t begin = 0, end = 0;
  };
  std::vector<Entry> entries_;
  std::size_t end_ = 0;
};

/// An answer so far, as the model writes it.
struct AnswerState {
  std::string text;            ///< so far, where the listener keeps it
  std::size_t text_bytes = 0;  ///< of the text so far
  std::vector<std::int32_t> tokens;
  PendingLogprobs logprobs;
  FinishReason finish = FinishReason::none;
  RequestStats stats;  ///< before the last output it has only the number and time of the tokens so far

  /// Counts the tokens of a delivery, without one that ends the answer, and the bytes of its text. Takes its log
  /// probabilities.
  void count(Delivery& delivery, const ServedModel& model);
};

/// An answer so far, as a message: reasoning, content and calls.
class AnswerMessage {
 public:
  /// `begin` is put at the beginning of the content. `number` makes the ids of calls to which the model gives none.
  AnswerMessage(const Turn& turn, std::string begin, std::uint64_t number);

  /// Adds an output. `tokens`: of the answer, with those of the output.
  void add(const StepOutput& output, std::size_t tokens);

  /// What the last output has added. Calls have their ids.
  [[nodiscard]] const std::vector<AnswerDelta>& deltas() const { return deltas_; }
  [[nodiscard]] const std::string& content() const { return content_; }
  [[nodiscard]] const std::string& reasoning() const { return reasoning_; }
  [[nodiscard]] const std::vector<ToolCall>& calls() const { return calls_; }
  [[nodiscard]] std::int64_t reasoning_tokens() const { return reasoning_tokens_; }
  [[nodiscard]] bool is_inside_call() const { return parser_.is_inside_call(); }
  /// All calls, except one that was cut at the answer's end.
  [[nodiscard]] std::span<const ToolCall> whole_calls() const;

 private:
  AnswerParser parser_;
  std::uint64_t number_;
  std::vector<AnswerDelta> deltas_;
  std::string content_, reasoning_;
  std::vector<ToolCall> calls_;
  std::int64_t reasoning_tokens_ = 0;
};

/// Gets the events of an answer in the thread that waits for it. Where one returns false the request is cancelled.
struct AnswerEvents {
  std::function<bool(std::string_view)> text{};     ///< as the model writes it; nothing comes after false
  std::function<bool(const AnswerDelta&)> delta{};  ///< a piece of reasoning, content or a call, with a message; likewise
  /// Called after each output, and ten times a second while there is none. What was written before false still comes.
  std::function<bool()> poll{};
};

/// The end of an answer.
struct AnswerEnd {
  std::string text{};  ///< all of it, as the model wrote it
  StepOutput last{};
  RequestStats stats{};
  bool shifted = false;  ///< older tokens were dropped from the context
};

/// Submits a request for one answer and waits for its end, in the calling thread. `message` gets the outputs. A request that
/// an event cancels ends with FinishReason::cancelled. Throws ServiceError (busy), Error for a request that can't be served,
/// std::bad_alloc, and what the events throw.
AnswerEnd wait_for_answer(EngineLoop& loop, Request request, const AnswerEvents& events = {},
                          AnswerMessage* message = nullptr);

/// Submits a request for `count` answers and passes on each of their outputs, in the calling thread, also one with
/// FinishReason::error. Returns true when all have ended, and false where `take` does, which cancels the request. Throws
/// ServiceError (busy), std::bad_alloc, and what `take` throws.
bool wait_for_outputs(EngineLoop& loop, Request request, int count, const std::function<bool(Delivery&)>& take);

/// Submits the requests together and waits for their last outputs, which are returned in the order of the requests. Throws
/// as wait_for_answer() does.
std::vector<StepOutput> wait_for_ends(EngineLoop& loop, std::vector<Request> requests);

}  // namespace rocmforge
