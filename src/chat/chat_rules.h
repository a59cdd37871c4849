#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "chat/chat_template.h"

namespace rocmforge {

/// Makes the small conversations that find out whether a template has a rule.
class ProbeMessages {
 public:
  explicit ProbeMessages(const ChatAbilities& abilities) : abilities_(&abilities) {}

  [[nodiscard]] static nlohmann::ordered_json message(std::string_view role, std::string_view text);
  /// A message with calls of probe_tool, one for each value.
  [[nodiscard]] nlohmann::ordered_json calls(std::initializer_list<std::string_view> values) const;
  /// The result of the call with that number.
  [[nodiscard]] static nlohmann::ordered_json result(int number, std::string_view text);
  [[nodiscard]] static nlohmann::ordered_json tools(nlohmann::ordered_json function);
  [[nodiscard]] static nlohmann::ordered_json usual_tools();

 private:
  const ChatAbilities* abilities_;
};

/// Something that templates refuse, or leave out, and that is said in another way to those that do.
struct ChatRule {
  std::string_view name;
  /// A conversation that has it. Its texts begin with "probe", and a template without the rule shows them all. Without
  /// messages: nothing to be asked of a template with these abilities.
  ChatRequest (*probe)(const ProbeMessages& make, const ChatAbilities& abilities);
  void (*adapt)(ChatRequest& request, const ChatAbilities& abilities);
};

/// In the order in which they are applied. Contents are texts, null, or parts.
std::span<const ChatRule> chat_rules();

/// Applies the rules of these abilities from the one with number `first`.
void adapt_to_rules(ChatRequest& request, const ChatAbilities& abilities, std::size_t first = 0);

/// Takes the images out of a message's content, which is made of parts.
nlohmann::ordered_json take_images(nlohmann::ordered_json& message);

/// Makes each text a part, for templates that take only parts.
void texts_to_parts(nlohmann::ordered_json& messages);

}  // namespace rocmforge
