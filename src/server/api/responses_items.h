#pragma once

#include <string>
#include <utility>

#include "server/api/responses_tools.h"

namespace rocmforge {

/// The messages of the items of the Responses API. Reasoning, text and calls of one turn become one message. Calls that the
/// client runs and their results become calls and results of functions; items of the vendor's server are shown as text
/// (content_parts.h), or as a placeholder where they only name what that server holds.
class ItemConversation {
 public:
  ItemConversation(Json messages, const OfferedTools& tools) : messages_(std::move(messages)), tools_(tools) {}

  /// Throws ApiError(400).
  void add(Fields& item);
  void add_text(const std::string& text);
  Json take() { return std::move(messages_); }

 private:
  void add_message(Fields& item);
  void add_reasoning(Fields& item);
  void add_call(const std::string& id, const std::string& name, const std::string& arguments);
  void add_action_call(Fields& item, const std::string& type);
  void add_result(Fields& item, const std::string& type);
  void add_shown(const std::string& role, const std::string& text);
  [[nodiscard]] bool answer_goes_on() const;

  Json messages_;
  const OfferedTools& tools_;
};

}  // namespace rocmforge
