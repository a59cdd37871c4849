#include "server/api/openai/chat.h"

#include <utility>

#include "server/api/message_generation.h"
#include "server/api/openai/chat_form.h"
#include "server/api/unserved_fields.h"

namespace rocmforge {
namespace {

class ChatGeneration final : public MessageGeneration {
 public:
  ChatGeneration(std::shared_ptr<HttpExchange> exchange, const Backend& backend, const ChatAsked& asked)
      : MessageGeneration(std::move(exchange), backend, asked.options, "chatcmpl-", asked.turn, asked.echo, asked.count),
        form_(answers(), messages(), asked) {}

 protected:
  std::vector<Json> events(int index, const StepOutput& output) override { return form_.events(index, output); }
  std::vector<Json> last_events() override { return form_.last_events(); }
  Json envelope() override { return form_.envelope(); }
  Json entry(int index) override { return form_.entry(index); }
  [[nodiscard]] std::string_view logprobs_name() const override { return form_.logprobs_name(); }
  TextPieces logprobs(int index) override { return form_.logprobs(index); }

 private:
  ChatForm form_;
};

}  // namespace

void serve_chat(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  Fields fields(document.root);
  ChatAsked asked = read_chat(fields, exchange->reading, backend);
  finish_fields(fields, *exchange, backend);
  tell_relaxed_tools(asked.turn, *exchange);
  exchange->reading.hold(asked.count * MessageGeneration::bytes_of(asked.turn, asked.echo));
  auto generation = std::make_shared<ChatGeneration>(exchange, backend, asked);
  generation->start(std::move(asked.turn.request), asked.count);
}

}  // namespace rocmforge
