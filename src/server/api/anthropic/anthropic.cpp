#include "server/api/anthropic/anthropic.h"

#include <utility>

#include "server/api/anthropic/anthropic_request.h"
#include "server/api/message_generation.h"

namespace rocmforge {
namespace {

/// One message of blocks: reasoning, text and calls in their order.
class AnthropicGeneration final : public MessageGeneration {
 public:
  AnthropicGeneration(std::shared_ptr<HttpExchange> exchange, const Backend& backend, StreamOptions options,
                      const Turn& turn, std::int64_t prompt_tokens)
      : MessageGeneration(std::move(exchange), backend, options, "msg_", turn, "", 1), prompt_tokens_(prompt_tokens) {}

 protected:
  void take(int index, StepOutput& output) override {
    MessageGeneration::take(index, output);
    if (output.finish != FinishReason::none) {
      stop_ = output.stop;
    }
  }

  std::vector<Json> events(int index, const StepOutput& output) override {
    std::vector<Json> list;
    if (!std::exchange(choice(index).begun, true)) {
      Json message = answer(Json::array());
      message["usage"] = {{"input_tokens", prompt_tokens_}, {"output_tokens", 0}};
      list.push_back({{"type", "message_start"}, {"message", std::move(message)}});
    }
    for (const AnswerDelta& delta : message(index).deltas()) {
      if (delta.kind == AnswerDelta::Kind::call || open_ != block_of(delta.kind)) {
        close_block(list);
        open_block(delta, list);
      }
      if (delta.kind != AnswerDelta::Kind::call) {
        list.push_back({{"type", "content_block_delta"}, {"index", blocks_}, {"delta", delta_json(delta)}});
      }
    }
    if (output.finish != FinishReason::none) {
      close_block(list);
      list.push_back({{"type", "message_delta"},
                      {"delta", {{"stop_reason", stop_reason()}, {"stop_sequence", stop_sequence()}}},
                      {"usage", counts()}});
    }
    return list;
  }

  std::vector<Json> last_events() override { return {{{"type", "message_stop"}}}; }

  Json envelope() override { return nullptr; }
  [[nodiscard]] bool is_single() const override { return true; }

  Json entry(int index) override {
    const AnswerMessage& whole = message(index);
    Json content = Json::array();
    if (!whole.reasoning().empty()) {
      content.push_back({{"type", "thinking"}, {"thinking", whole.reasoning()}, {"signature", ""}});
    }
    if (!whole.content().empty()) {
      content.push_back({{"type", "text"}, {"text", whole.content()}});
    }
    for (const ToolCall& call : whole.whole_calls()) {
      content.push_back({{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", arguments_json(call)}});
    }
    Json json = answer(std::move(content));
    json["stop_reason"] = stop_reason();
    json["stop_sequence"] = stop_sequence();
    json["usage"] = counts();
    return json;
  }

  [[nodiscard]] bool says_done() const override { return false; }
  [[nodiscard]] StreamForm stream_form() const override { return StreamForm::named_events; }
  [[nodiscard]] ErrorForm error_form() const override { return anthropic_error; }

 private:
  enum class Block { none, thinking, text, call };

  static Block block_of(AnswerDelta::Kind kind) {
    switch (kind) {
      case AnswerDelta::Kind::content:
        return Block::text;
      case AnswerDelta::Kind::reasoning:
        return Block::thinking;
      case AnswerDelta::Kind::call:
      case AnswerDelta::Kind::arguments:
        break;
    }
    return Block::call;
  }

  static Json delta_json(const AnswerDelta& delta) {
    switch (block_of(delta.kind)) {
      case Block::text:
        return {{"type", "text_delta"}, {"text", delta.text}};
      case Block::thinking:
        return {{"type", "thinking_delta"}, {"thinking", delta.text}};
      case Block::call:
      case Block::none:
        break;
    }
    return {{"type", "input_json_delta"}, {"partial_json", delta.text}};
  }

  void open_block(const AnswerDelta& delta, std::vector<Json>& list) {
    open_ = block_of(delta.kind);
    Json block = {{"type", "text"}, {"text", ""}};
    if (open_ == Block::thinking) {
      block = {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
    } else if (open_ == Block::call) {
      block = {{"type", "tool_use"}, {"id", delta.id}, {"name", delta.text}, {"input", Json::object()}};
    }
    list.push_back({{"type", "content_block_start"}, {"index", blocks_}, {"content_block", std::move(block)}});
  }

  void close_block(std::vector<Json>& list) {
    if (std::exchange(open_, Block::none) != Block::none) {
      list.push_back({{"type", "content_block_stop"}, {"index", blocks_++}});
    }
  }

  [[nodiscard]] Json answer(Json content) const {
    return {{"id", id()},
            {"type", "message"},
            {"role", "assistant"},
            {"model", model().id},
            {"content", std::move(content)},
            {"stop_reason", nullptr},
            {"stop_sequence", nullptr}};
  }

  [[nodiscard]] std::string_view stop_reason() {
    if (ends_with_calls(0)) {
      return "tool_use";
    }
    return choice(0).finish != FinishReason::stop ? "max_tokens" : stop_.empty() ? "end_turn" : "stop_sequence";
  }
  [[nodiscard]] Json stop_sequence() { return stop_reason() == "stop_sequence" ? Json(stop_) : Json(nullptr); }

  /// Tokens from the cache do not count as input.
  [[nodiscard]] Json counts() {
    const RequestStats& stats = choice(0).stats;
    return {{"input_tokens", stats.prompt_tokens - stats.cached_tokens},
            {"cache_creation_input_tokens", 0},
            {"cache_read_input_tokens", stats.cached_tokens},
            {"output_tokens", stats.generated_tokens}};
  }

  std::int64_t prompt_tokens_;
  std::string stop_;  ///< the text that ended the answer
  Block open_ = Block::none;
  int blocks_ = 0;  ///< that have ended
};

std::string_view anthropic_error_type(int status) {
  switch (status) {
    case 403:
      return "permission_error";
    case 413:
      return "request_too_large";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : error_type(status);
  }
}

}  // namespace

Json anthropic_error(const ApiError& error) {
  return {{"type", "error"}, {"error", {{"type", anthropic_error_type(error.status)}, {"message", error.message}}}};
}

void serve_anthropic_messages(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  Fields fields(document.root);
  Turn turn = read_turn(fields, read_anthropic(fields, exchange->reading), new_request(backend.model), exchange->reading,
                        backend, anthropic_fields);
  const StreamOptions options = finish_turn(fields, turn, *exchange, backend, anthropic_fields);
  auto generation = std::make_shared<AnthropicGeneration>(exchange, backend, options, turn,
                                                          static_cast<std::int64_t>(turn.request.prompt.size()));
  generation->start(std::move(turn.request), 1);
}

void serve_anthropic_count_tokens(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  Fields fields(document.root);
  Conversation conversation = read_anthropic(fields, exchange->reading);
  send_input_tokens(fields, std::move(conversation), *exchange, backend, Json::object());
}

}  // namespace rocmforge
