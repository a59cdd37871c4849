#include "chat_call.h"

#include <utility>
#include <vector>

#include "server/api/json_pieces.h"
#include "server/api/message_generation.h"
#include "server/api/openai/chat_form.h"
#include "server/api/unserved_fields.h"
#include "service/stream.h"

namespace rocmforge {
namespace {

/// The answers so far, and their form.
class ChatCollector {
 public:
  ChatCollector(const Backend& backend, const ChatAsked& asked)
      : answers_(backend.model, "chatcmpl-"),
        messages_(new_messages(asked.turn, asked.echo, answers_.id, asked.count)),
        options_(asked.options),
        form_(answers_, messages_, asked) {
    answers_.count = asked.count;
    answers_.choices.resize(static_cast<std::size_t>(asked.count));
  }

  void add(Delivery& delivery) {
    const StepOutput& output = delivery.output;
    AnswerChoice& choice = answers_.choices[static_cast<std::size_t>(delivery.choice)];
    choice.count(delivery, answers_.model);
    messages_[static_cast<std::size_t>(delivery.choice)].add(output, choice.tokens.size());
    choice.finish = output.finish;
    choice.stats = output.stats.value_or(choice.stats);
  }
  std::vector<Json> events(const Delivery& delivery) {
    std::vector<Json> events = form_.events(delivery.choice, delivery.output);
    for (Json& event : events) {
      add_timings(event, options_, answers_.choices[static_cast<std::size_t>(delivery.choice)], delivery.output);
    }
    return events;
  }
  [[nodiscard]] std::vector<Json> last_events() const { return form_.last_events(); }
  std::string whole() {
    TextPieces choices = list_of_pieces(answers_.choices.size(), [this](std::size_t i) {
      const int index = static_cast<int>(i);
      return with_member(form_.entry(index), form_.logprobs_name(), form_.logprobs(index));
    });
    const TextPieces pieces = with_member(form_.envelope(), "choices", std::move(choices));
    std::string text;
    while (pieces(text)) {
    }
    return text;
  }

 private:
  Answers answers_;
  std::vector<AnswerMessage> messages_;
  StreamOptions options_;
  ChatForm form_;
};

/// Passes on events until one is refused.
bool tell(const std::vector<Json>& events, const std::function<bool(std::string_view)>& take) {
  for (const Json& event : events) {
    if (!take(to_text(event))) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string answer_chat(const Json& request, Reading& reading, const Backend& backend,
                        const std::function<bool(std::string_view)>& take) {
  Fields fields(request);
  ChatAsked asked = read_chat(fields, reading, backend);
  refuse_unserved_fields(fields, backend);
  EngineLoop& loop = backend.instance->loop();
  check_answer_count(static_cast<std::size_t>(asked.count), loop.places());
  ChatCollector collector(backend, asked);
  const std::size_t prompt_tokens = asked.turn.request.prompt.size();
  asked.turn.request.cache_salt = salt_in_space(backend.model, "", asked.turn.request.cache_salt);
  const bool has_ended = wait_for_outputs(loop, std::move(asked.turn.request), asked.count, [&](Delivery& delivery) {
    if (delivery.output.finish == FinishReason::error || delivery.output.finish == FinishReason::timeout) {
      throw error_of_answer(delivery.output, prompt_tokens, backend.model, backend.request_time);
    }
    collector.add(delivery);
    return !take || tell(collector.events(delivery), take);
  });
  if (take) {
    static_cast<void>(has_ended && tell(collector.last_events(), take));
    return "";
  }
  return collector.whole();
}

}  // namespace rocmforge
