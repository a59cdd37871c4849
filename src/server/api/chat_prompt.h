#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/api/fields.h"
#include "server/api/generation.h"
#include "server/api/served_model.h"

namespace rocmforge {

constexpr std::size_t most_tools = 512;

/// A parsed conversation.
struct ChatCall {
  ChatRequest request;  ///< with the tools that the model sees
  const ChatTemplate* chat_template = nullptr;
  ChatPrompt prompt;
  std::string continued{};             ///< the text of the message that the answer continues
  std::vector<std::string> relaxed{};  ///< the names of tools whose syntax does not bind the answer
};

/// Reads `messages`, `tools`, `chat_template_kwargs`, `reasoning_effort`, `add_generation_prompt` and
/// `continue_final_message`, and renders the prompt. With `hide_tools` the
/// template does not see them. Throws ApiError(400) naming the message or field that is wrong.
ChatCall read_chat(Fields& fields, const ServedModel& model, Reading& reading, bool hide_tools = false);

/// POST /apply-template
void serve_apply_template(const std::shared_ptr<Exchange>& exchange, const Backend& backend);

}  // namespace rocmforge
