#include "extension/toy_api.h"

#include <utility>

#include "server/api/message_generation.h"

namespace rocmforge {
namespace {

constexpr ApiFields toy_fields{.max_tokens = "words", .has_stream_options = false};

/// The request, by the names of this API.
Conversation read_toy(Fields& fields) {
  Conversation conversation;
  conversation.field = "question";
  conversation.messages.push_back(text_message(Role::user, fields.needed_text("question")));
  return conversation;
}

/// The answer, in the form of this API.
class ToyGeneration final : public MessageGeneration {
 public:
  ToyGeneration(std::shared_ptr<HttpExchange> exchange, const Backend& backend, StreamOptions options, const Turn& turn)
      : MessageGeneration(std::move(exchange), backend, options, "toy_", turn, "", 1) {}

 protected:
  std::vector<Json> events(int index, const StepOutput& output) override {
    std::vector<Json> list;
    for (const AnswerDelta& delta : message(index).deltas()) {
      list.push_back({{delta.kind == AnswerDelta::Kind::reasoning ? "thoughts" : "reply", delta.text}});
    }
    if (output.finish != FinishReason::none) {
      list.push_back({{"end", finish_text(output.finish)}});
    }
    return list;
  }
  Json envelope() override { return nullptr; }
  [[nodiscard]] bool is_single() const override { return true; }
  Json entry(int index) override {
    return {{"reply", message(index).content()},
            {"thoughts", message(index).reasoning()},
            {"end", finish_text(choice(index).finish)}};
  }
  [[nodiscard]] bool says_done() const override { return false; }
  [[nodiscard]] StreamForm stream_form() const override { return StreamForm::lines; }
  [[nodiscard]] ErrorForm error_form() const override { return toy_error; }
};

void serve_toy(const std::shared_ptr<HttpExchange>& exchange, ServerState& state) {
  const Backend backend = state.needed_backend();
  const Document document = exchange->take_json();
  Fields fields(document.root);
  Turn turn = read_turn(fields, read_toy(fields), new_request(backend.model), exchange->reading, backend, toy_fields);
  const StreamOptions options = finish_turn(fields, turn, *exchange, backend, toy_fields);
  std::make_shared<ToyGeneration>(exchange, backend, options, turn)->start(std::move(turn.request), 1);
}

}  // namespace

Json toy_error(const ApiError& error) { return {{"oops", error.message}}; }

std::vector<Route> toy_routes() { return {{.method = "POST", .path = "/toy/ask", .serve = serve_toy, .error = toy_error}}; }

}  // namespace rocmforge
