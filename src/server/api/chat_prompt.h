#pragma once

#include <memory>

#include "chat/conversation.h"
#include "server/api/generation.h"
#include "service/model.h"

namespace rocmforge {

/// A conversation as the model sees it.
struct ChatCall {
  Conversation conversation;
  const ChatTemplate* chat_template = nullptr;
  ChatPrompt prompt{};
};

/// Renders the prompt with the model's template. Throws ApiError: 501 for a model without a template, 400 naming
/// Conversation::field for a conversation that the template refuses.
ChatCall render_chat(Conversation conversation, const ServedModel& model, Reading& reading);

/// POST /apply-template
void serve_apply_template(const std::shared_ptr<Exchange>& exchange, const Backend& backend);

}  // namespace rocmforge
