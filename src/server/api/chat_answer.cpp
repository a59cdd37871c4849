#include "server/api/chat_answer.h"

#include <functional>
#include <utility>

#include "chat/message_json.h"
#include "grammar/grammar_constraint.h"
#include "server/api/constraints.h"
#include "server/api/prompts.h"
#include "server/api/thoughts.h"
#include "server/api/unserved_fields.h"

namespace rocmforge {
namespace {

/// The answer's constraint, from its tools and its format: a call, or an answer in the format. A required call leaves the
/// format aside. In channels calls have a channel of their own, so that the format of the final one leaves them free.
std::shared_ptr<const TokenConstraint> choose_constraint(Fields& fields, const AskedAnswer& asked, const Backend& backend,
                                                         Reading& reading) {
  const ToolUse& use = asked.use;
  const GrammarTrigger after_thoughts{.text = std::string(use.format.reasoning.end)};
  const bool waits = use.format.reasoning_is_open || use.format.header_is_open;
  auto wanted =
      read_constraint(fields, backend.grammars, reading, waits ? &after_thoughts : nullptr, asked.call.conversation.format);
  if (wanted == nullptr || use.constraint == nullptr) {
    return wanted != nullptr ? wanted : use.constraint;
  }
  if (use.calls == nullptr) {
    return use.constraint;
  }
  return use.format.in_channels
             ? wanted
             : make_call_or_answer(wanted->clone(), use.calls, use.trigger, waits ? after_thoughts.text : "");
}

}  // namespace

AskedAnswer read_asked_answer(Fields& fields, Conversation conversation, Request request, Reading& reading,
                              const Backend& backend, const ApiFields& api) {
  AskedAnswer asked{
      .call = render_chat(std::move(conversation), backend.model, reading), .use = {}, .request = std::move(request)};
  const bool splits_reasoning = fields.choice("reasoning_format", {"none", "auto", "deepseek"}) != "none";
  asked.use = prepare_tools(asked.call, splits_reasoning, backend, reading);
  asked.request.prompt = encode_prompt(reading, backend.model.text(), asked.call.prompt.segments);
  read_sampling(fields, backend.model, asked.request, api);
  asked.request.constraint = bound_thoughts(asked.call.conversation.reasoning, asked.use, backend.model,
                                            choose_constraint(fields, asked, backend, reading));
  return asked;
}

void tell_relaxed_tools(const ToolUse& use, Exchange& exchange) {
  if (!use.relaxed.empty()) {
    exchange.add_header("X-Relaxed-Tools", list_of_names({.names = use.relaxed, .count = use.relaxed.size()}));
  }
}

StreamOptions finish_asked_answer(Fields& fields, AskedAnswer& asked, Exchange& exchange, const Backend& backend,
                                  const ApiFields& api) {
  const StreamOptions options = read_stream(fields, api);
  asked.request.max_tokens = read_max_tokens(fields, asked.request.max_tokens, false, api);
  finish_fields(fields, exchange, backend);
  tell_relaxed_tools(asked.use, exchange);
  exchange.reading.hold(MessageGeneration::bytes_of(asked.use, ""));
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

void send_input_tokens(const Fields& fields, Conversation conversation, Exchange& exchange, const Backend& backend,
                       Json answer) {
  const ChatCall call = render_chat(std::move(conversation), backend.model, exchange.reading);
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

MessageGeneration::MessageGeneration(std::shared_ptr<Exchange> exchange, const Backend& backend, StreamOptions options,
                                     std::string_view prefix, const ToolUse& use, const std::string& echo, int count)
    : Generation(std::move(exchange), backend, options, prefix), own_bytes_(count * bytes_of(use, echo)) {
  for (int i = 0; i < count; ++i) {
    messages_.emplace_back(use, echo);
  }
}

std::int64_t MessageGeneration::bytes_of(const ToolUse& use, const std::string& echo) {
  std::size_t bytes = sizeof(Message) + use.opening.size() + echo.size();
  for (const std::string& name : use.format.tool_names) {
    bytes += sizeof(name) + name.size();
  }
  return static_cast<std::int64_t>(bytes);
}

void MessageGeneration::take(int index, StepOutput& output) {
  Message& message = messages_[static_cast<std::size_t>(index)];
  message.news = message.parser.add(output.text);
  if (output.finish != FinishReason::none) {
    const bool is_cut = output.finish != FinishReason::stop || !output.stop.empty();
    for (AnswerDelta& delta : message.parser.finish(is_cut)) {
      message.news.push_back(std::move(delta));
    }
  }
  for (AnswerDelta& delta : message.news) {
    switch (delta.kind) {
      case AnswerDelta::Kind::content:
        message.content += delta.text;
        break;
      case AnswerDelta::Kind::reasoning:
        message.reasoning += delta.text;
        message.reasoning_tokens = static_cast<std::int64_t>(choice(index).tokens.size());
        break;
      case AnswerDelta::Kind::call:
        if (delta.id.empty()) {
          delta.id = tool_call_id(std::hash<std::string>{}(id()) + static_cast<std::size_t>(64 * index + delta.index));
        }
        message.calls.push_back({delta.id, delta.text, ""});
        break;
      case AnswerDelta::Kind::arguments:
        message.calls.back().arguments += delta.text;
        break;
    }
  }
}

std::span<const ToolCall> MessageGeneration::whole_calls(int index) const {
  const Message& one = message(index);
  return std::span(one.calls).first(one.calls.size() - (one.parser.is_inside_call() ? 1 : 0));
}

bool MessageGeneration::ends_with_calls(int index) {
  const Message& one = message(index);
  return choice(index).finish == FinishReason::stop && !one.calls.empty() && !one.parser.is_inside_call();
}

}  // namespace rocmforge
