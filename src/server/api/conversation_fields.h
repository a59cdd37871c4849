#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/conversation.h"
#include "server/api/fields.h"
#include "service/reading.h"

namespace rocmforge {

constexpr std::size_t most_messages = 10'000;
constexpr std::size_t most_tools = 512;

/// Counts the memory that a conversation needs until it is a prompt. Called before it is read.
void hold_conversation(Reading& reading);

/// Reads a conversation by OpenAI's names: `messages`, `tools`, and what read_template_fields() reads. Throws ApiError(400)
/// naming the message or field that is wrong.
Conversation read_conversation(Fields& fields, Reading& reading);
/// The same, with what a request for an answer says of it: `tool_choice`, `parallel_tool_calls`, and the limits of
/// reasoning.
Conversation read_chat_request(Fields& fields, Reading& reading);

/// Throws ApiError(400) for more than most_messages, or fewer than `least`, in the field `name`.
void check_message_count(const Fields& fields, std::string_view name, std::size_t count, std::size_t least = 0);

/// The array of tools that is the member `name`, null for none. Throws ApiError(400) for more than most_tools.
const Json* find_tools(Fields& fields, std::string_view name);
/// The name of a tool, which is not empty. Throws ApiError(400).
std::string needed_tool_name(Fields& tool);

/// `tools` by OpenAI's names. Tools that run on a vendor's server are left out. Throws ApiError(400).
std::optional<std::vector<Tool>> read_tools(Fields& fields);

/// `tool_choice` and `parallel_tool_calls`. Throws ApiError(400).
ToolSelection read_tool_choice(Fields& fields);

/// What all APIs share: `chat_template_kwargs`, `reasoning_effort`, `thinking`, `add_generation_prompt` and
/// `continue_final_message`. The messages have been read. Throws ApiError(400).
void read_template_fields(Fields& fields, Conversation& conversation);

}  // namespace rocmforge
