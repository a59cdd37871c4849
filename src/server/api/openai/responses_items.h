#pragma once

#include <string>
#include <utility>
#include <vector>

#include "chat/conversation.h"
#include "server/api/openai/responses_tools.h"

namespace rocmforge {

/// The messages of the items of the Responses API. Reasoning, text and calls of one turn become one message. Calls that the
/// client runs and their results become calls and results of functions; items of the vendor's server are shown as text
/// (content_parts.h), or as a placeholder where they only name what that server holds.
class ItemConversation {
 public:
  ItemConversation(std::vector<Message> messages, const OfferedTools& tools)
      : messages_(std::move(messages)), tools_(tools) {}

  /// Throws ApiError(400).
  void add(Fields& item);
  void add_text(std::string text) { messages_.push_back(text_message(Role::user, std::move(text))); }
  std::vector<Message> take() { return std::move(messages_); }

 private:
  void add_message(Fields& item);
  void add_reasoning(Fields& item);
  void add_call(std::string id, std::string name, std::string arguments);
  void add_action_call(Fields& item, const ActionTool& tool);
  void add_result(Fields& item, const std::string& type);
  void add_shown(Role role, Part part);
  [[nodiscard]] bool answer_goes_on() const;

  std::vector<Message> messages_;
  const OfferedTools& tools_;
};

}  // namespace rocmforge
