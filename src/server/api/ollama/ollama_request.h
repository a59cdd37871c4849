#pragma once

#include <string>

#include "chat/conversation.h"
#include "schedule/request.h"
#include "server/api/fields.h"
#include "server/api/sampling_fields.h"
#include "service/reading.h"

namespace rocmforge {

// Requests of Ollama's API. Throw ApiError(400) naming the field that is wrong.

constexpr ApiFields ollama_fields{.streams = true, .limit_in_options = true};

/// Reads a request for a message: `messages`, `tools`, and the fields below. Without messages it only asks for the model.
Conversation read_ollama_chat(Fields& fields, Reading& reading);

/// A request for a text.
struct OllamaText {
  std::string prompt{};
  std::string suffix{};         ///< the text after a gap
  bool is_raw = false;          ///< the prompt is continued, not answered
  Conversation conversation{};  ///< else; without messages it only asks for the model
};
/// Reads `prompt`, `suffix`, `raw`, `system`, and the fields below.
OllamaText read_ollama_text(Fields& fields, Reading& reading);

/// `options`: sampling, `stop` and `num_predict`. The others are named among the unknown fields.
void read_ollama_options(Fields& fields, Request& request);

}  // namespace rocmforge
