#include "server/api/chat.h"

#include <functional>
#include <utility>

#include "base/error.h"
#include "engine/grammar/grammar_constraint.h"
#include "server/api/chat_tools.h"
#include "server/api/constraints.h"
#include "server/api/prompts.h"
#include "server/api/unserved_fields.h"

namespace rocmforge {
namespace {

/// What an answer has become so far.
struct Message {
  Message(const ToolUse& use, const std::string& echo) : parser(use.format), content(echo) { parser.add(use.opening); }

  AnswerParser parser;
  std::vector<AnswerDelta> news;  ///< of the last output
  std::string content, reasoning;
  std::vector<ToolCall> calls;
  std::int64_t reasoning_tokens = 0;
};

class ChatGeneration final : public Generation {
 public:
  ChatGeneration(std::shared_ptr<Exchange> exchange, const Backend& backend, StreamOptions options, bool logprobs,
                 const ToolUse& use, std::string echo, int count)
      : Generation(std::move(exchange), backend, options, "chatcmpl-"), logprobs_(logprobs), echo_(std::move(echo)) {
    for (int i = 0; i < count; ++i) {
      messages_.emplace_back(use, echo_);
    }
    own_bytes_ = count * bytes_of(use, echo_);
  }

  /// Of one message at its beginning.
  static std::int64_t bytes_of(const ToolUse& use, const std::string& echo) {
    std::size_t bytes = sizeof(Message) + use.opening.size() + echo.size();
    for (const std::string& name : use.format.tool_names) {
      bytes += sizeof(name) + name.size();
    }
    return static_cast<std::int64_t>(bytes);
  }

 protected:
  void take(int index, StepOutput& output) override {
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

  std::vector<Json> events(int index, const StepOutput& output) override {
    std::vector<Json> list;
    Choice& state = choice(index);
    const Message& message = messages_[static_cast<std::size_t>(index)];
    if (!std::exchange(state.begun, true)) {
      list.push_back(chunk(index, {{"role", "assistant"}, {"content", nullptr}}));
      if (!echo_.empty()) {
        list.push_back(chunk(index, {{"content", echo_}}));
      }
    }
    const bool last = output.finish != FinishReason::none;
    for (const AnswerDelta& delta : message.news) {
      list.push_back(chunk(index, delta_json(delta)));
    }
    if (!message.news.empty()) {
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
            {"message", message_json(messages_[static_cast<std::size_t>(index)])},
            {"logprobs", nullptr},
            {"finish_reason", finish_of(index)}};
  }

  [[nodiscard]] std::int64_t own_bytes() const override { return own_bytes_; }
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

  static Json message_json(const Message& message) {
    Json json = {{"role", "assistant"}, {"content", message.content}, {"refusal", nullptr}};
    if (!message.reasoning.empty()) {
      json["reasoning_content"] = message.reasoning;
    }
    if (!message.calls.empty()) {
      if (message.content.empty()) {
        json["content"] = nullptr;
      }
      for (const ToolCall& call : message.calls) {
        json["tool_calls"].push_back(
            {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
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
    const FinishReason reason = choice(index).finish;
    const Message& message = messages_[static_cast<std::size_t>(index)];
    const bool called = reason == FinishReason::stop && !message.calls.empty() && !message.parser.is_inside_call();
    return called ? "tool_calls" : finish_text(reason);
  }

  [[nodiscard]] Json counts() const {
    Json json = usage();
    std::int64_t tokens = 0;
    for (const Message& message : messages_) {
      tokens += message.reasoning_tokens;
    }
    json["completion_tokens_details"]["reasoning_tokens"] = tokens;
    return json;
  }

  void add_logprobs(Choice& state, bool last, Json& entry) const {
    if (logprobs_) {
      entry["logprobs"] = chat_logprobs(state.logprobs.take(state.text_bytes, last), model().text());
    }
  }

  std::int64_t own_bytes_ = 0;
  bool logprobs_;
  std::string echo_;  ///< the beginning of each message, which the client sent
  std::vector<Message> messages_;
};

void read_tokens_and_logprobs(Fields& fields, Request& request) {
  request.max_tokens = read_max_tokens(fields, -1);
  const bool logprobs = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, max_logprobs);
  if (top.value_or(0) > 0 && !logprobs) {
    fields.fail("top_logprobs", "needs logprobs to be true");
  }
  request.logprobs = logprobs ? static_cast<std::int32_t>(top.value_or(0)) : -1;
}

/// The answer's constraint, from its tools or its format.
std::shared_ptr<const TokenConstraint> choose_constraint(Fields& fields, const ToolUse& use, const Backend& backend,
                                                         Exchange& exchange) {
  const GrammarTrigger after_thoughts{.text = std::string(use.format.reasoning.end)};
  auto wanted =
      read_constraint(fields, backend.grammars, exchange, use.format.reasoning_is_open ? &after_thoughts : nullptr);
  if (wanted != nullptr && use.constraint != nullptr) {
    throw ApiError(
        400, "tools can't be combined with response_format, json_schema or grammar; tool_choice none leaves them aside",
        "tools");
  }
  return wanted != nullptr ? wanted : use.constraint;
}

}  // namespace

void serve_chat(const std::shared_ptr<Exchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  const Json& body = document.root;
  Fields fields(body);
  const ToolSelection selection = read_tool_choice(fields);
  ChatCall call = read_chat(fields, backend.model, *exchange, selection.none);
  const bool splits_reasoning = fields.choice("reasoning_format", {"none", "auto", "deepseek"}) != "none";
  const ToolUse use = prepare_tools(call, selection, splits_reasoning, backend, *exchange);
  Request request;
  request.prompt = encode_prompt(*exchange, backend.model.text(), call.prompt.segments);
  read_sampling(fields, backend.model, request);
  request.constraint = choose_constraint(fields, use, backend, *exchange);
  const int count = read_count(fields, 128);
  const StreamOptions options = read_stream(fields);
  read_tokens_and_logprobs(fields, request);
  const bool echo = fields.boolean("echo").value_or(false);
  finish_fields(fields, *exchange, backend);
  const std::string continued = echo ? call.continued : std::string();
  exchange->hold(count * ChatGeneration::bytes_of(use, continued));
  auto generation =
      std::make_shared<ChatGeneration>(exchange, backend, options, request.logprobs >= 0, use, continued, count);
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  generation->start(std::move(requests), count);
}

}  // namespace rocmforge
