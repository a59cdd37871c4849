#pragma once

#include "chat/chat_template.h"
#include "tokenizer/answer_formats.h"

namespace rocmforge {

/// The style in which the model of a template writes calls.
ToolCallStyle detect_tool_call_style(const ChatTemplate& chat_template);

}  // namespace rocmforge
