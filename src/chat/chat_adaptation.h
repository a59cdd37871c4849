#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "chat/chat_template.h"

namespace rocmforge {

/// Renders a request. Empty when the template refuses it.
using ChatProbe = std::function<std::optional<std::string>(const ChatRequest& request)>;
ChatAbilities probe_abilities(std::string_view source, const ChatProbe& render);

/// Changes a request to a form that a template with these abilities accepts (see ChatTemplate::prompt). The marks
/// become the texts of images and recordings where the template shows none; "": these are refused. Throws Error.
struct MediaTexts {
  std::string image{};
  std::string sound{};
};
void adapt(ChatRequest& request, const ChatAbilities& abilities, const MediaTexts& marks = {});

}  // namespace rocmforge
