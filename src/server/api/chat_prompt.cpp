#include "server/api/chat_prompt.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/error.h"
#include "server/api/api_error.h"
#include "server/api/chat_request.h"
#include "server/api/unserved_fields.h"

namespace rocmforge {

ChatCall render_chat(Conversation conversation, const ServedModel& model, Reading& reading) {
  static_cast<void>(model.text());
  if (model.templates == nullptr) {
    throw ApiError(501, "the model has no chat template; --chat-template-file gives it one");
  }
  ChatRequest request = conversation.request();
  request.budget = &reading.budget;
  // The server's own names are few: searching all given ones for each would take quadratic time.
  for (const auto& [name, value] : model.template_arguments.items()) {
    if (!request.arguments.contains(name)) {
      request.arguments[name] = value;
    }
  }
  ChatCall call{.conversation = std::move(conversation), .chat_template = &model.templates->choose(request)};
  try {
    call.prompt = call.chat_template->prompt(std::move(request));
  } catch (const Error& error) {
    throw ApiError(400, fmt::format("the chat template refuses the conversation: {}", error.what()),
                   call.conversation.field);
  }
  return call;
}

void serve_apply_template(const std::shared_ptr<Exchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  Fields fields(document.root);
  const ChatCall call = render_chat(read_conversation(fields, exchange->reading), backend.model, exchange->reading);
  finish_fields(fields, *exchange, backend);
  std::string text = text_of(call.prompt.segments);
  exchange->reading.keep(2 * static_cast<std::int64_t>(text.size()));
  exchange->send_pieces(with_member({{"prompt", nullptr}}, "prompt", string_in_pieces(std::move(text))));
}

}  // namespace rocmforge
