#include "server/api/openai/chat_form.h"

#include <utility>

#include "server/api/message_generation.h"

namespace rocmforge {
namespace {

Json delta_json(const AnswerDelta& delta) {
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

Json message_json(const AnswerMessage& message) {
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

}  // namespace

ChatAsked read_chat(Fields& fields, Reading& reading, const Backend& backend) {
  constexpr int most_choices = 128;
  ChatAsked asked{.turn =
                      read_turn(fields, read_chat_request(fields, reading), new_request(backend.model), reading, backend)};
  asked.count = read_count(fields, most_choices);
  asked.options = read_stream(fields);
  Request& request = asked.turn.request;
  request.max_tokens = read_max_tokens(fields, request.max_tokens);
  request.logprobs = read_logprobs(fields);
  if (fields.boolean("echo").value_or(false)) {
    asked.echo = asked.turn.conversation.continued_text();
  }
  return asked;
}

ChatForm::ChatForm(Answers& answers, const std::vector<AnswerMessage>& messages, const ChatAsked& asked)
    : answers_(answers),
      messages_(messages),
      echo_(asked.echo),
      has_logprobs_(asked.turn.request.logprobs >= 0),
      include_usage_(asked.options.include_usage) {}

std::vector<Json> ChatForm::events(int index, const StepOutput& output) {
  std::vector<Json> list;
  AnswerChoice& state = choice(index);
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
    end["timings"] = timings_json(state.stats);
    list.push_back(std::move(end));
  }
  return list;
}

std::vector<Json> ChatForm::last_events() const {
  if (!include_usage_) {
    return {};
  }
  Json event = answers_.head("chat.completion.chunk");
  event["choices"] = Json::array();
  event["usage"] = counts();
  return {std::move(event)};
}

Json ChatForm::envelope() const {
  Json answer = answers_.head("chat.completion");
  answer["choices"] = nullptr;
  answer["usage"] = counts();
  answer["timings"] = timings_json(answers_.choices.front().stats);
  return answer;
}

Json ChatForm::entry(int index) const {
  return {{"index", index},
          {"message", message_json(message(index))},
          {"logprobs", nullptr},
          {"finish_reason", finish_of(index)}};
}

TextPieces ChatForm::logprobs(int index) {
  return has_logprobs_
             ? chat_logprobs_in_pieces(choice(index).logprobs.take(choice(index).text_bytes, true), answers_.model.tokenizer)
             : nullptr;
}

Json ChatForm::chunk(int index, Json delta) const {
  Json event = answers_.head("chat.completion.chunk");
  event["choices"] =
      Json::array({{{"index", index}, {"delta", std::move(delta)}, {"logprobs", nullptr}, {"finish_reason", nullptr}}});
  if (include_usage_) {
    event["usage"] = nullptr;
  }
  return event;
}

std::string_view ChatForm::finish_of(int index) const {
  return ends_with_calls(choice(index), message(index)) ? "tool_calls" : finish_text(choice(index).finish);
}

Json ChatForm::counts() const {
  Json json = answers_.usage();
  std::int64_t tokens = 0;
  for (const AnswerMessage& message : messages_) {
    tokens += message.reasoning_tokens();
  }
  json["completion_tokens_details"]["reasoning_tokens"] = tokens;
  return json;
}

void ChatForm::add_logprobs(AnswerChoice& state, bool last, Json& entry) const {
  if (has_logprobs_) {
    entry["logprobs"] = chat_logprobs(state.logprobs.take(state.text_bytes, last), answers_.model.text());
  }
}

}  // namespace rocmforge
