#include "server/api/ollama/ollama_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "server/api/content_parts.h"
#include "server/api/conversation_fields.h"
#include "server/api/reasoning_fields.h"

namespace rocmforge {
namespace ollama {
namespace {

/// A text and the images beside it, which models see before the text.
Content with_images(Fields& fields, std::string text) {
  std::vector<Part> parts;
  const Json* images = fields.array("images");
  for (std::size_t i = 0; images != nullptr && i < images->size(); ++i) {
    const std::string field = fmt::format("images[{}]", i);
    if (!(*images)[i].is_string()) {
      fields.fail(field, "must be an image in base64");
    }
    parts.push_back(
        ImagePart{.url = data_url("", (*images)[i].get_ref<const std::string&>()), .field = fields.full_name(field)});
  }
  if (!text.empty() || parts.empty()) {
    parts.push_back(TextPart{std::move(text)});
  }
  return content_of(std::move(parts));
}

/// `tools` and what all APIs share. The messages have been read.
void read_shared(Fields& fields, Conversation& conversation) {
  conversation.tools = read_tools(fields);
  conversation.selection = read_tool_choice(fields);
  read_template_fields(fields, conversation);
  read_reasoning_limits(fields, conversation.reasoning);
}

/// `format` and `think`.
void read_own(Fields& fields, Conversation& conversation) {
  if (const Json* format = fields.find("format"); format != nullptr && *format != "") {
    if (*format != "json" && !format->is_object()) {
      fields.fail("format", "must be \"json\" or a schema");
    }
    conversation.format = AskedFormat{.schema = format->is_object() ? format : nullptr, .field = "format"};
  }
  if (const Json* think = fields.find("think")) {
    if (!think->is_boolean() && !think->is_string()) {
      fields.fail("think", "must be true, false or an effort");
    }
    conversation.reasoning.is_on = *think != false;
    if (think->is_string()) {
      conversation.reasoning.effort = think->get<std::string>();
    }
  }
  fields.ignore({"keep_alive"});
}

/// Calls have no ids in this API: they are numbered, and results belong to the calls in their order.
class MessageReader {
 public:
  Message read(Fields& fields) {
    const std::string role = fields.needed_choice("role", {"system", "user", "assistant", "tool"});
    Message message{.role = *role_of(role), .content = with_images(fields, fields.text("content").value_or(""))};
    message.reasoning = fields.text("thinking").value_or("");
    if (role == "tool") {
      message.call_id = id_of(std::min(answered_++, std::max(calls_ - 1, 0)));
      message.name = fields.text("tool_name").value_or("");
    }
    fields.each("tool_calls", fields.array("tool_calls"), [&](Fields& call) {
      Fields inner(call.needed_object("function"), call.full_name("function") + ".");
      const Json* arguments = inner.object("arguments");
      std::string name = inner.needed_text("name");
      message.calls.push_back(
          {.id = id_of(calls_++), .name = std::move(name), .arguments = arguments == nullptr ? "{}" : to_text(*arguments)});
    });
    return message;
  }

 private:
  static std::string id_of(int number) { return fmt::format("call{:05}", number); }

  int calls_ = 0;
  int answered_ = 0;
};

}  // namespace
}  // namespace ollama

Conversation read_ollama_chat(Fields& fields, Reading& reading) {
  hold_conversation(reading);
  Conversation conversation;
  const Json* given = fields.array("messages");
  check_message_count(fields, "messages", given == nullptr ? 0 : given->size());
  ollama::MessageReader reader;
  fields.each("messages", given, [&](Fields& message) { conversation.messages.push_back(reader.read(message)); });
  if (!conversation.messages.empty()) {
    ollama::read_shared(fields, conversation);
    ollama::read_own(fields, conversation);
  }
  return conversation;
}

OllamaText read_ollama_text(Fields& fields, Reading& reading) {
  hold_conversation(reading);
  if (const auto text = fields.text("template"); text && !text->empty()) {
    fields.fail("template", "is not served; with raw the prompt is taken as it is");
  }
  OllamaText read{.prompt = fields.text("prompt").value_or(""), .suffix = fields.text("suffix").value_or("")};
  read.is_raw = fields.boolean("raw").value_or(false) || !read.suffix.empty();
  const std::string system = fields.text("system").value_or("");
  read.conversation.field = "prompt";
  if (read.is_raw) {
    if (!system.empty()) {
      fields.note("system");  // the text around a gap has no place for it
    }
    if (const Json* images = fields.array("images"); images != nullptr && !images->empty()) {
      fields.note("images");
    }
  } else {
    if (!system.empty()) {
      read.conversation.messages.push_back(text_message(Role::system, system));
    }
    if (Content content = ollama::with_images(fields, read.prompt); content != Content("")) {
      read.conversation.messages.push_back({.role = Role::user, .content = std::move(content)});
    }
    ollama::read_shared(fields, read.conversation);
  }
  ollama::read_own(fields, read.conversation);
  return read;
}

void read_ollama_options(Fields& fields, Request& request) {
  const Json* given = fields.object("options");
  if (given == nullptr) {
    return;
  }
  constexpr std::int64_t most_tokens = std::int64_t{1} << 30;
  Fields options = fields.inner(*given, "options.");
  read_sampling_numbers(options, request.sampling);
  read_stop(options, "stop", request);
  const auto most = options.integer("num_predict", std::numeric_limits<std::int64_t>::min(), most_tokens);
  request.max_tokens = static_cast<std::int32_t>(std::max<std::int64_t>(most.value_or(-1), -1));
  if (request.max_tokens == 0) {  // 0, -1 and -2 are no limit there
    request.max_tokens = -1;
  }
  options.finish();
}

}  // namespace rocmforge
