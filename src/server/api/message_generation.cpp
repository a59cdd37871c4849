#include "server/api/message_generation.h"

#include <functional>
#include <utility>

#include "chat/message_json.h"
#include "server/api/asked_grammar.h"
#include "server/api/content_parts.h"
#include "server/api/unserved_fields.h"
#include "service/encoding.h"

namespace rocmforge {

Turn read_turn(Fields& fields, Conversation conversation, Request request, Reading& reading, const Backend& backend,
               const ApiFields& api) {
  show_media(fields, conversation, backend.model);
  TurnRequest asked{.conversation = std::move(conversation), .request = std::move(request)};
  asked.splits_reasoning = fields.choice("reasoning_format", {"none", "auto", "deepseek"}) != "none";
  read_sampling(fields, backend.model, asked.request, api);
  asked.grammar = read_answer_grammar(fields, reading, asked.conversation.format);
  return make_turn(std::move(asked), *backend.instance, reading);
}

ChatCall render_request(Fields& fields, Conversation conversation, Reading& reading, const Backend& backend) {
  show_media(fields, conversation, backend.model);
  return render_chat(std::move(conversation), backend.model, reading);
}

void tell_relaxed_tools(const Turn& turn, HttpExchange& exchange) {
  if (!turn.relaxed.empty()) {
    exchange.add_header("X-Relaxed-Tools", list_of_names({.names = turn.relaxed, .count = turn.relaxed.size()}));
  }
}

StreamOptions finish_turn(Fields& fields, Turn& turn, HttpExchange& exchange, const Backend& backend, const ApiFields& api) {
  const StreamOptions options = read_stream(fields, api);
  turn.request.max_tokens = read_max_tokens(fields, turn.request.max_tokens, false, api);
  finish_fields(fields, exchange, backend);
  tell_relaxed_tools(turn, exchange);
  exchange.reading.hold(MessageGeneration::bytes_of(turn, ""));
  return options;
}

std::int32_t read_logprobs(Fields& fields) {
  const bool logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, max_logprobs);
  if (top.value_or(0) > 0 && !logprobs) {
    fields.fail("top_logprobs", "needs logprobs to be true");
  }
  return logprobs ? static_cast<std::int32_t>(top.value_or(0)) : -1;
}

void send_input_tokens(Fields& fields, Conversation conversation, HttpExchange& exchange, const Backend& backend,
                       Json answer) {
  const ChatCall call = render_request(fields, std::move(conversation), exchange.reading, backend);
  tell_unknown_fields(fields, exchange, backend);
  answer["input_tokens"] = encode_prompt(exchange.reading, backend.model.text(), call.prompt.segments).size();
  exchange.send_json(answer);
}

Json call_json(const ToolCall& call) { return call_message(call.id, call.name, call.arguments); }

Json arguments_json(const ToolCall& call) {
  JsonDocument document = read_json(call.arguments.empty() ? "{}" : call.arguments);
  if (!document.problem.empty() || !document.value.is_object()) {
    return {{"INVALID_JSON", call.arguments}};
  }
  return std::move(document.value);
}

std::vector<AnswerMessage> new_messages(const Turn& turn, const std::string& echo, const std::string& id, int count) {
  std::vector<AnswerMessage> messages;
  for (int i = 0; i < count; ++i) {
    messages.emplace_back(turn, echo, std::hash<std::string>{}(id) + static_cast<std::size_t>(64 * i));
  }
  return messages;
}

bool ends_with_calls(const AnswerState& answer, const AnswerMessage& message) {
  return answer.finish == FinishReason::stop && !message.calls().empty() && !message.is_inside_call();
}

MessageGeneration::MessageGeneration(std::shared_ptr<HttpExchange> exchange, const Backend& backend, StreamOptions options,
                                     std::string_view prefix, const Turn& turn, const std::string& echo, int count)
    : Generation(std::move(exchange), backend, options, prefix),
      own_bytes_(count * bytes_of(turn, echo)),
      messages_(new_messages(turn, echo, id(), count)) {}

std::int64_t MessageGeneration::bytes_of(const Turn& turn, const std::string& echo) {
  std::size_t bytes = sizeof(AnswerMessage) + turn.opening.size() + echo.size();
  for (const std::string& name : turn.format.tool_names) {
    bytes += sizeof(name) + name.size();
  }
  return static_cast<std::int64_t>(bytes);
}

void MessageGeneration::take(int index, StepOutput& output) {
  messages_[static_cast<std::size_t>(index)].add(output, choice(index).tokens.size());
}

}  // namespace rocmforge
