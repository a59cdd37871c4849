#include "chat/tool_call_styles.h"

namespace rocmforge {

ToolCallStyle detect_tool_call_style(const ChatTemplate& chat_template) { return chat_template.abilities().call_style; }

}  // namespace rocmforge
