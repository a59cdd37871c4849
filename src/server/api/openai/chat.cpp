#include "server/api/openai/chat.h"

#include <utility>

#include "server/api/message_generation.h"
#include "server/api/unserved_fields.h"

namespace rocmforge {
namespace {

class ChatGeneration final : public MessageGeneration {
 public:
  ChatGeneration(std::shared_ptr<HttpExchange> exchange, const Backend& backend, StreamOptions options, bool logprobs,
                 const Turn& turn, std::string echo, int count)
      : MessageGeneration(std::move(exchange), backend, options, "chatcmpl-", turn, echo, count),
        logprobs_(logprobs),
        echo_(std::move(echo)) {}

 protected:
  std::vector<Json> events(int index, const StepOutput& output) override {
    std::vector<Json> list;
    Choice& state = choice(index);
    if (!std::exchange(state.begun, true)) {
      list.push_back(chunk(index, {{"role", "assistant"}, {"content", nullptr}}));
      if (!echo_.empty()) {
        list.push_back(chunk(index, {{"content", echo_}}));
      }
    }
    const bool last = output.finish != FinishReason::none;
    for (const AnswerDelta& delta : message(index).deltas()) {
      list.push_back(chunk(index, delta_json(delta)));
    }
    if (!message(index).deltas().empty()) {
      add_logprobs(state, last, list.back()["choices"][0]);
    }
    if (last) {
      Json end = chunk(index, Json::object());
      end["choices"][0]["finish_reason"] = finish_of(index);
      end["timings"] = timings(state.stats);
      list.push_back(std::move(end));
    }
    return list;
  }

  std::vector<Json> last_events() override {
    if (!options().include_usage) {
      return {};
    }
    Json event = head("chat.completion.chunk");
    event["choices"] = Json::array();
    event["usage"] = counts();
    return {std::move(event)};
  }

  Json envelope() override {
    Json answer = head("chat.completion");
    answer["choices"] = nullptr;
    answer["usage"] = counts();
    answer["timings"] = timings(choices().front().stats);
    return answer;
  }

  Json entry(int index) override {
    return {{"index", index},
            {"message", message_json(message(index))},
            {"logprobs", nullptr},
            {"finish_reason", finish_of(index)}};
  }

  [[nodiscard]] std::string_view logprobs_name() const override { return logprobs_ ? "logprobs" : ""; }
  TextPieces logprobs(int index) override {
    return logprobs_
               ? chat_logprobs_in_pieces(choice(index).logprobs.take(choice(index).text_bytes, true), model().tokenizer)
               : nullptr;
  }

 private:
  static Json delta_json(const AnswerDelta& delta) {
    switch (delta.kind) {
      case AnswerDelta::Kind::content:
        return {{"content", delta.text}};
      case AnswerDelta::Kind::reasoning:
        return {{"reasoning_content", delta.text}};
      case AnswerDelta::Kind::call:
        return {{"tool_calls", Json::array({{{"index", delta.index},
                                             {"id", delta.id},
                                             {"type", "function"},
                                             {"function", {{"name", delta.text}, {"arguments", ""}}}}})}};
      case AnswerDelta::Kind::arguments:
        break;
    }
    return {{"tool_calls", Json::array({{{"index", delta.index}, {"function", {{"arguments", delta.text}}}}})}};
  }

  static Json message_json(const AnswerMessage& message) {
    Json json = {{"role", "assistant"}, {"content", message.content()}, {"refusal", nullptr}};
    if (!message.reasoning().empty()) {
      json["reasoning_content"] = message.reasoning();
    }
    if (!message.calls().empty()) {
      if (message.content().empty()) {
        json["content"] = nullptr;
      }
      for (const ToolCall& call : message.calls()) {
        json["tool_calls"].push_back(call_json(call));
      }
    }
    return json;
  }

  [[nodiscard]] Json chunk(int index, Json delta) const {
    Json event = head("chat.completion.chunk");
    event["choices"] =
        Json::array({{{"index", index}, {"delta", std::move(delta)}, {"logprobs", nullptr}, {"finish_reason", nullptr}}});
    if (options().include_usage) {
      event["usage"] = nullptr;
    }
    return event;
  }

  [[nodiscard]] std::string_view finish_of(int index) {
    return ends_with_calls(index) ? "tool_calls" : finish_text(choice(index).finish);
  }

  [[nodiscard]] Json counts() const {
    Json json = usage();
    std::int64_t tokens = 0;
    for (const AnswerMessage& message : messages()) {
      tokens += message.reasoning_tokens();
    }
    json["completion_tokens_details"]["reasoning_tokens"] = tokens;
    return json;
  }

  void add_logprobs(Choice& state, bool last, Json& entry) const {
    if (logprobs_) {
      entry["logprobs"] = chat_logprobs(state.logprobs.take(state.text_bytes, last), model().text());
    }
  }

  bool logprobs_;
  std::string echo_;  ///< the beginning of each message, which the client sent
};

}  // namespace

void serve_chat(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  const Json& body = document.root;
  Fields fields(body);
  Turn turn = read_turn(fields, read_chat_request(fields, exchange->reading), new_request(backend.model), exchange->reading,
                        backend);
  const int count = read_count(fields, 128);
  const StreamOptions options = read_stream(fields);
  turn.request.max_tokens = read_max_tokens(fields, turn.request.max_tokens);
  turn.request.logprobs = read_logprobs(fields);
  const bool echo = fields.boolean("echo").value_or(false);
  finish_fields(fields, *exchange, backend);
  tell_relaxed_tools(turn, *exchange);
  const std::string continued = echo ? turn.conversation.continued_text() : std::string();
  exchange->reading.hold(count * ChatGeneration::bytes_of(turn, continued));
  auto generation =
      std::make_shared<ChatGeneration>(exchange, backend, options, turn.request.logprobs >= 0, turn, continued, count);
  generation->start(std::move(turn.request), count);
}

}  // namespace rocmforge
