#include "server/api/chat_answer.h"

#include <functional>
#include <utility>

#include "engine/grammar/grammar_constraint.h"
#include "server/api/constraints.h"
#include "server/api/prompts.h"

namespace rocmforge {
namespace {

/// The answer's constraint, from its tools or its format.
std::shared_ptr<const TokenConstraint> choose_constraint(Fields& fields, const ToolUse& use, GrammarCache& grammars) {
  const GrammarTrigger after_thoughts{.text = std::string(use.format.reasoning.end)};
  auto wanted = read_constraint(fields, grammars, use.format.reasoning_is_open ? &after_thoughts : nullptr);
  if (wanted != nullptr && use.constraint != nullptr) {
    throw ApiError(
        400, "tools can't be combined with response_format, json_schema or grammar; tool_choice none leaves them aside",
        "tools");
  }
  return wanted != nullptr ? wanted : use.constraint;
}

}  // namespace

AskedAnswer read_asked_answer(Fields& fields, Exchange& exchange, const Backend& backend) {
  const ToolSelection selection = read_tool_choice(fields);
  AskedAnswer asked{.call = read_chat(fields, backend.model, exchange, selection.none), .use = {}, .request = {}};
  const bool splits_reasoning = fields.choice("reasoning_format", {"none", "auto", "deepseek"}) != "none";
  asked.use = prepare_tools(asked.call, selection, splits_reasoning, backend.model, backend.grammars);
  asked.request.prompt = encode_prompt(exchange, backend.model.text(), asked.call.prompt.segments);
  read_sampling(fields, backend.model, asked.request);
  asked.request.constraint = choose_constraint(fields, asked.use, backend.grammars);
  return asked;
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

bool MessageGeneration::ends_with_calls(int index) {
  const Message& one = message(index);
  return choice(index).finish == FinishReason::stop && !one.calls.empty() && !one.parser.is_inside_call();
}

}  // namespace rocmforge
