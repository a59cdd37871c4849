#pragma once

#include <vector>

#include "chat/conversation.h"
#include "server/api/openai/responses_tools.h"
#include "server/api/sampling_fields.h"
#include "service/reading.h"

namespace rocmforge {

constexpr ApiFields responses_fields{.max_tokens = "max_output_tokens", .has_stream_options = false};

/// Reads a request of OpenAI's Responses API: `instructions`, `input` after the messages of `earlier` responses, `tools`,
/// `tool_choice`, `text`, `reasoning`, and the fields that all APIs share. `tools` gets those that are offered. Throws
/// ApiError(400) naming the field that is wrong.
Conversation read_responses(Fields& fields, std::vector<Message> earlier, OfferedTools& tools, Reading& reading);

}  // namespace rocmforge
