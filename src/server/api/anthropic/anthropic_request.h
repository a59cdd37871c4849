#pragma once

#include "chat/conversation.h"
#include "server/api/fields.h"
#include "server/api/sampling_fields.h"
#include "service/reading.h"

namespace rocmforge {

constexpr ApiFields anthropic_fields{.stop = "stop_sequences"};

/// Reads a request of Anthropic's Messages API: `system`, `messages`, `tools`, `tool_choice`, `output_config`,
/// `output_format`, and the fields that all APIs share. Throws ApiError(400) naming the field that is wrong.
Conversation read_anthropic(Fields& fields, Reading& reading);

}  // namespace rocmforge
