#pragma once

#include "chat/chat_template.h"
#include "chat/conversation.h"
#include "service/model.h"
#include "service/reading.h"

namespace rocmforge {

/// A conversation as the model sees it.
struct ChatCall {
  Conversation conversation;
  const ChatTemplate* chat_template = nullptr;
  ChatPrompt prompt{};
};

/// Renders the prompt with the model's template, or with one of `templates` in place of its own. Throws ServiceError:
/// unsupported for a model without a template, invalid with Conversation::field for a conversation that the template
/// refuses.
ChatCall render_chat(Conversation conversation, const ServedModel& model, Reading& reading,
                     const ChatTemplates* templates = nullptr);

}  // namespace rocmforge
