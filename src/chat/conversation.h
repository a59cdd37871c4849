#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "chat/chat_template.h"
#include "chat/tool_grammar.h"

namespace rocmforge {

// A conversation that is to be answered, whatever API it came by. JSON is made of it only for the template.

struct TextPart {
  std::string text;
  bool operator==(const TextPart&) const = default;
};
/// An image as its sender gave it: nothing is decoded or fetched before it is known that the model sees images.
struct ImagePart {
  std::string url;      ///< "data:image/png;base64,...", or the address of a file
  std::string field{};  ///< the request's field that holds it, for messages
  bool operator==(const ImagePart&) const = default;
};
/// A recording, likewise.
struct SoundPart {
  std::string url;                             ///< "data:;base64,...", or the address of a file
  std::string field{};                         ///< the request's field that holds it, for messages
  std::shared_ptr<const std::string> bytes{};  ///< the file itself, in place of `url`; is not stored
  bool operator==(const SoundPart&) const = default;
};
/// One part of a content. What a model takes beside text becomes an alternative of it.
using Part = std::variant<TextPart, ImagePart, SoundPart>;
/// None, one text, or parts. Templates distinguish a text from a single part.
using Content = std::variant<std::monostate, std::string, std::vector<Part>>;

/// "" for no parts, the text itself for one text, else the parts.
Content content_of(std::vector<Part> parts);
/// All text of it.
std::string text_of(const Content& content);
/// Its images, in their order.
std::vector<const ImagePart*> images_of(const Content& content);
/// Its recordings, likewise.
std::vector<const SoundPart*> sounds_of(const Content& content);

enum class Role : std::uint8_t { system, developer, user, assistant, tool };
std::string_view name(Role role);
/// Empty for an unknown name.
std::optional<Role> role_of(std::string_view name);

/// A call of an assistant's message.
struct MessageCall {
  std::string id{};  ///< "" for none
  std::string name{};
  nlohmann::ordered_json arguments{};  ///< an object, or its JSON text; null for none
  nlohmann::ordered_json others{};     ///< null, or an object with further members for the template
};

struct Message {
  Role role = Role::user;
  Content content{};
  std::string reasoning{};  ///< of an assistant; "" for none
  std::vector<MessageCall> calls{};
  std::string call_id{};            ///< of the call whose result the message is; "" for none
  std::string name{};               ///< of who speaks, or of the tool; "" for none
  nlohmann::ordered_json others{};  ///< null, or an object with further members for the template
};

inline Message text_message(Role role, std::string text) { return {.role = role, .content = std::move(text)}; }

/// In the form of ChatRequest::messages, where an image or a recording is a mark of its place alone.
nlohmann::ordered_json json_of(const Message& message);
/// The same with all that images and recordings hold, to be read again by message_of_json().
nlohmann::ordered_json stored_json_of(const Message& message);
/// Reads what stored_json_of() has written of a valid message.
Message message_of_json(const nlohmann::ordered_json& json);

struct Tool {
  std::string name{};
  nlohmann::ordered_json declaration{};  ///< in the form of ChatRequest::tools, with all that the template may show
  bool is_relaxed = false;               ///< its input has a syntax that can't be enforced
};

/// Which tools the answer may call.
struct ToolSelection {
  bool none = false;  ///< the model sees no tool
  ToolChoice choice{};
  std::vector<std::string> allowed{};  ///< the names of the tools that may be called; none: all
};

/// The form that an API asks for with a field of its own.
struct AskedFormat {
  const nlohmann::ordered_json* schema = nullptr;  ///< outlives this; null: any JSON object
  std::string field{};                             ///< that holds it, for messages
};

/// What a request says of the reasoning before the answer.
struct Reasoning {
  std::optional<std::string> effort{};
  std::optional<bool> is_on{};           ///< empty: as the template does by itself
  std::optional<std::int64_t> budget{};  ///< of tokens; -1: no limit
  std::string budget_field{};            ///< that holds it, for messages
};

struct Conversation {
  std::vector<Message> messages{};
  std::optional<std::vector<Tool>> tools{};  ///< templates distinguish an empty list from none
  ToolSelection selection{};
  std::optional<AskedFormat> format{};
  Reasoning reasoning{};
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();  ///< variables of the template
  bool add_generation_prompt = true;                                    ///< ChatRequest::add_generation_prompt
  bool continue_final_message = true;                                   ///< ChatRequest::continue_final_message
  std::string field = "messages";  ///< the request's field that holds the messages, for messages about them

  /// Of all messages, in their order.
  [[nodiscard]] std::vector<const ImagePart*> images() const;
  [[nodiscard]] std::vector<const SoundPart*> sounds() const;
  /// Whether it ends with an assistant's message that an answer can continue.
  [[nodiscard]] bool ends_with_answer() const;
  /// The text of the last message if the answer continues it, else "".
  [[nodiscard]] std::string continued_text() const;
  /// For the template, which sees no tools where none may be called. Efforts and switches of reasoning become variables by
  /// the names that templates use; effort "none" turns it off. Variables that are there are kept.
  [[nodiscard]] ChatRequest request() const;
};

}  // namespace rocmforge
