#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "chat/chat_template.h"

namespace rocmforge {

/// Renders a request, or gives nothing where the template refuses it.
using ChatProbe = std::function<std::optional<std::string>(const ChatRequest& request)>;
ChatAbilities probe_abilities(std::string_view source, const ChatProbe& render);

/// Changes a request to what a template with these abilities can take, as ChatTemplate::prompt says. Throws Error.
void adapt(ChatRequest& request, const ChatAbilities& abilities);

/// What the answer begins with.
struct AnswerStart {
  bool is_there = false;
  std::string reasoning, content;
};
/// Takes an assistant's message from the conversation's end, when an answer is asked for. Throws Error for two of them.
AnswerStart take_answer_start(ChatRequest& request);
void append_answer_start(const AnswerStart& start, ChatPrompt& prompt);

bool ends_inside_reasoning(std::string_view prompt);

}  // namespace rocmforge
