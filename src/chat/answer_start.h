#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "chat/chat_template.h"

namespace rocmforge {

/// Whether the answer continues the last message: the conversation ends with an assistant's message without calls, and an
/// answer is requested.
bool continues_answer(const ChatRequest& request);

using ChatRenderer = std::function<std::vector<ChatSegment>(const ChatRequest& request)>;

/// The prompt that ends where the text of the last message ends, like transformers' continue_final_message. It contains what
/// the template writes before that text, and nothing that it writes after it. If the template does not show the message, its
/// text follows the prompt for an answer. `source` is the template's source. Throws Error.
ChatPrompt continue_answer(ChatRequest request, std::string_view source, const ReasoningMarks& marks,
                           const ChatRenderer& render);

bool ends_inside_reasoning(std::string_view prompt, const ReasoningMarks& marks);

}  // namespace rocmforge
