#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "chat/chat_template.h"

namespace rocmforge {

/// The conversation ends with an assistant's message without calls, and an answer is asked for: it goes on from there.
bool continues_answer(const ChatRequest& request);

using ChatRenderer = std::function<std::vector<ChatSegment>(const ChatRequest& request)>;

/// The prompt that ends where the last message's text ends, as transformers' continue_final_message: what the template
/// writes before it stands there, what it writes behind it does not. Where a template does not show such a message, its text
/// follows the prompt for an answer. `source` is the template's. Throws Error.
ChatPrompt continue_answer(ChatRequest request, std::string_view source, const ReasoningMarks& marks,
                           const ChatRenderer& render);

bool ends_inside_reasoning(std::string_view prompt, const ReasoningMarks& marks);

}  // namespace rocmforge
