#include "service/chat_prompt.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "service/service_error.h"

namespace rocmforge {

ChatCall render_chat(Conversation conversation, const ServedModel& model, Reading& reading, const ChatTemplates* templates) {
  static_cast<void>(model.text());
  if (model.is_encoder) {
    throw ServiceError(ServiceError::Kind::unsupported, "the model is an encoder: it gives embeddings or scores, no text");
  }
  if (const auto images = conversation.images(); !images.empty() && !model.images) {
    throw ServiceError(ServiceError::Kind::unsupported, "the model reads text alone and can't see images",
                       images.front()->field);
  }
  if (const auto sounds = conversation.sounds(); !sounds.empty() && !model.sounds) {
    throw ServiceError(ServiceError::Kind::unsupported, "the model reads text alone and can't hear recordings",
                       sounds.front()->field);
  }
  if (templates == nullptr) {
    templates = model.templates.get();
  }
  if (templates == nullptr) {
    throw ServiceError(ServiceError::Kind::unsupported, "the model has no chat template; --chat-template-file gives it one");
  }
  ChatRequest request = conversation.request();
  request.budget = &reading.budget;
  request.image_text = model.images ? model.images->text : "";
  request.sound_text = model.sounds ? model.sounds->text : "";
  // The model's own names are few: searching all given ones for each would take quadratic time.
  for (const auto& [name, value] : model.template_arguments.items()) {
    if (!request.arguments.contains(name)) {
      request.arguments[name] = value;
    }
  }
  ChatCall call{.conversation = std::move(conversation), .chat_template = &templates->choose(request)};
  try {
    call.prompt = call.chat_template->prompt(std::move(request));
  } catch (const Error& error) {
    throw ServiceError(ServiceError::Kind::invalid,
                       fmt::format("the chat template refuses the conversation: {}", error.what()), call.conversation.field);
  }
  return call;
}

}  // namespace rocmforge
