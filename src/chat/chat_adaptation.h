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

}  // namespace rocmforge
