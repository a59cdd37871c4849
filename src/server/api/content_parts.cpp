#include "server/api/content_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/utf8.h"
#include "chat/message_json.h"

namespace rocmforge {
namespace {

/// Kinds of parts that the model can't see, by the types that APIs give them.
struct UnseenKind {
  std::string_view type, kind;
};
constexpr std::array unseen_kinds = {
    UnseenKind{"image", "image"},       UnseenKind{"image_url", "image"},
    UnseenKind{"input_image", "image"}, UnseenKind{"output_image", "image"},
    UnseenKind{"image_file", "image"},  UnseenKind{"computer_screenshot", "image"},
    UnseenKind{"audio", "audio"},       UnseenKind{"audio_url", "audio"},
    UnseenKind{"input_audio", "audio"}, UnseenKind{"output_audio", "audio"},
    UnseenKind{"video", "video"},       UnseenKind{"video_url", "video"},
    UnseenKind{"input_video", "video"}, UnseenKind{"redacted_thinking", "encrypted thought"},
};

bool is_file(std::string_view type) {
  return type == "document" || type == "file" || type == "input_file" || type == "container_upload";
}

bool is_text(std::string_view type) {
  constexpr std::array<std::string_view, 6> types = {"text",           "input_text",   "output_text",
                                                     "reasoning_text", "summary_text", "refusal"};
  return std::ranges::find(types, type) != types.end();
}

/// Calls that a vendor's server made, and what came of them.
bool is_record(std::string_view type) {
  constexpr std::array<std::string_view, 6> ends = {"_tool_use", "_tool_result", "_call", "_output", "_result", "_error"};
  return std::ranges::any_of(ends, [&](std::string_view end) { return type.ends_with(end); });
}

/// The first text of an object under one of the names.
std::string first_of(const Json& object, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (std::string text = object.is_object() ? string_of(object, name) : ""; !text.empty()) {
      return text;
    }
  }
  return "";
}

/// The bytes of base64 text, if they are valid UTF-8.
std::optional<std::string> text_of_base64(std::string_view code) {
  std::optional<std::string> bytes = decode_base64(code);
  std::string held;
  if (bytes) {
    static_cast<void>(replace_invalid_utf8(*bytes, held));
  }
  return held.empty() ? std::move(bytes) : std::nullopt;
}

bool is_text_media(std::string_view media) {
  return media.starts_with("text/") || media == "application/json" || media == "application/xml";
}

/// The text of a file's data: "data:text/plain;base64,...", or bytes whose media type is known.
std::optional<std::string> text_of_data(std::string_view data, std::string_view media) {
  constexpr std::string_view start = "data:", base64 = ";base64,";
  if (data.starts_with(start)) {
    const std::size_t end = data.find(base64);
    if (end == std::string_view::npos) {
      return std::nullopt;
    }
    media = data.substr(start.size(), end - start.size());
    media = media.substr(0, media.find(';'));
    data.remove_prefix(end + base64.size());
  }
  return is_text_media(media) ? text_of_base64(data) : std::nullopt;
}

std::string under_title(const std::string& title, std::string text) {
  return title.empty() ? text : fmt::format("{}\n{}", title, text);
}

/// A file with its text, if it has one.
std::string shown_file(Fields& part, const std::string& type) {
  const Json& whole = part.json();
  const auto inner = whole.find(type == "file" ? "file" : "source");
  const Json& source = inner != whole.end() && inner->is_object() ? *inner : whole;
  std::string title = first_of(whole, {"title", "filename", "file_id"});
  if (title.empty()) {
    title = first_of(source, {"filename", "url", "file_id"});
  }
  const std::string form = string_of(source, "type");
  if (form == "text") {
    return under_title(title, string_of(source, "data"));
  }
  if (form == "content" && source.contains("content")) {
    Fields fields = part.inner(source, part.full_name("source."));
    return under_title(title, shown_texts(fields, "content", "\n"));
  }
  const auto text = text_of_data(first_of(source, {"file_data", "data"}), string_of(source, "media_type"));
  return text ? under_title(title, *text) : placeholder("file", title);
}

/// An image's address, if it says anything.
std::string name_of_media(const Json& part, const std::string& type) {
  const auto inner = part.find(type);
  const auto source = part.find("source");
  std::string name = first_of(part, {"title", "filename", "image_url", "file_id", "transcript"});
  for (const auto& each : {inner, source}) {
    if (name.empty() && each != part.end()) {
      name = first_of(*each, {"url", "file_id", "filename", "transcript"});
    }
  }
  return name.starts_with("data:") ? "" : name;
}

/// Where an image is, as a URL; "" where a vendor's store alone knows it.
std::string url_of_image(const Json& part, const std::string& type) {
  if (const auto source = part.find("source"); source != part.end() && source->is_object()) {
    const std::string data = string_of(*source, "data");
    return data.empty() ? string_of(*source, "url") : data_url(string_of(*source, "media_type"), data);
  }
  if (const auto inner = part.find(type); inner != part.end() && inner->is_object()) {
    return string_of(*inner, "url");
  }
  return first_of(part, {"image_url", "image", "url"});
}

/// Where a recording is, as a URL; "" without it. Its first bytes say the format, whatever the part calls it.
std::string url_of_sound(const Json& part, const std::string& type) {
  const auto inner = part.find(type);
  if (inner == part.end() || !inner->is_object()) {
    return "";
  }
  const std::string data = string_of(*inner, "data");
  return data.empty() ? string_of(*inner, "url") : data_url("audio", data);
}

bool is_opaque(std::string_view name, const Json& value) {
  constexpr std::array<std::string_view, 10> names = {"type",          "id",        "call_id", "tool_use_id", "data",
                                                      "cache_control", "signature", "status",  "caller",      "b64_json"};
  const bool is_image = name == "result" && value.is_string();
  return is_image || name.starts_with("encrypted_") || std::ranges::find(names, name) != names.end();
}

/// Removes what nobody can read, in all levels.
void remove_opaque(Json& record) {
  std::vector<Json*> todo = {&record};
  while (!todo.empty()) {
    Json& each = *todo.back();
    todo.pop_back();
    if (each.is_object()) {
      Json::object_t kept;
      for (auto& [name, value] : each.get_ref<Json::object_t&>()) {
        if (!is_opaque(name, value)) {
          kept.push_back({name, std::move(value)});
        }
      }
      each = std::move(kept);
    }
    if (each.is_structured()) {
      for (Json& inner : each) {
        todo.push_back(&inner);
      }
    }
  }
}

}  // namespace

std::string placeholder(std::string_view kind, std::string_view name) {
  constexpr std::size_t longest = 256;
  return fmt::format("[{}{}{}: this model reads text alone and can't see it]", kind, name.empty() ? "" : " ",
                     name.size() <= longest ? name : "");
}

std::string shown_record(std::string_view type, const Json& record) {
  Json readable = record;
  remove_opaque(readable);
  return fmt::format("[{} {}]", type, to_text(readable));
}

std::string shown_text(Fields& part) {
  const std::string type = part.needed_text("type");
  if (is_text(type)) {
    return part.needed_text(type == "refusal" && part.has("refusal") ? "refusal" : "text");
  }
  part.note(type);
  const Json& whole = part.json();
  const auto unseen = std::ranges::find(unseen_kinds, type, &UnseenKind::type);
  if (unseen != unseen_kinds.end()) {
    return placeholder(unseen->kind, name_of_media(whole, type));
  }
  if (is_file(type)) {
    return shown_file(part, type);
  }
  if (type == "tool_reference") {
    return fmt::format("[tool {}]", first_of(whole, {"tool_name", "name"}));
  }
  if (type == "search_result" && part.has("content")) {
    return under_title(string_of(whole, "title"),
                       under_title(string_of(whole, "source"), shown_texts(part, "content", "\n")));
  }
  if (is_record(type)) {
    return shown_record(type, whole);
  }
  const std::string text = first_of(whole, {"text", "content", "summary"});
  return text.empty() ? placeholder(type.substr(0, 64)) : text;
}

Part shown_part(Fields& part) {
  const std::string type = part.needed_text("type");
  const auto unseen = std::ranges::find(unseen_kinds, type, &UnseenKind::type);
  if (unseen != unseen_kinds.end() && unseen->kind == "image") {
    if (std::string url = url_of_image(part.json(), type); !url.empty()) {
      return ImagePart{.url = std::move(url), .field = part.full_name(type)};
    }
  }
  if (unseen != unseen_kinds.end() && unseen->kind == "audio") {
    if (std::string url = url_of_sound(part.json(), type); !url.empty()) {
      return SoundPart{.url = std::move(url), .field = part.full_name(type)};
    }
  }
  return TextPart{shown_text(part)};
}

namespace {

/// Calls act(Fields&) for each part of a content, which is a text or an array of parts.
template <class Act>
void each_part(Fields& fields, std::string_view name, const Act& act) {
  const Json* content = fields.find(name);
  if (content == nullptr) {
    fields.fail(name, "is missing");
  }
  if (content->is_string()) {
    const Json whole = text_part(*content);
    Fields part(whole);
    return act(part);
  }
  if (!content->is_array()) {
    fields.fail(name, "must be a string or an array of parts");
  }
  for (std::size_t i = 0; i < content->size(); ++i) {
    Fields part = fields.inner((*content)[i], fmt::format("{}[{}].", fields.full_name(name), i));
    act(part);
  }
}

}  // namespace

std::vector<Part> shown_parts(Fields& fields, std::string_view name) {
  std::vector<Part> parts;
  each_part(fields, name, [&parts](Fields& part) { parts.push_back(shown_part(part)); });
  return parts;
}

Content shown_content(Fields& fields, std::string_view name) { return content_of(shown_parts(fields, name)); }

std::string shown_texts(Fields& fields, std::string_view name, std::string_view between) {
  std::string text;
  each_part(fields, name, [&](Fields& part) {
    text += text.empty() ? "" : between;
    text += shown_text(part);
  });
  return text;
}

void show_media(Fields& fields, Conversation& conversation, const ServedModel& model) {
  const auto show = [&](Part& part, const auto& held, std::string_view kind) {
    fields.note(held.field);
    part = TextPart{placeholder(kind, held.url.starts_with("data:") ? "" : held.url)};
  };
  for (Message& message : conversation.messages) {
    auto* parts = std::get_if<std::vector<Part>>(&message.content);
    if (parts == nullptr) {
      continue;
    }
    for (Part& part : *parts) {
      if (const auto* image = std::get_if<ImagePart>(&part); image != nullptr && !model.images) {
        show(part, ImagePart(*image), "image");
      } else if (const auto* sound = std::get_if<SoundPart>(&part); sound != nullptr && !model.sounds) {
        show(part, SoundPart(*sound), "audio");
      }
    }
    message.content = content_of(std::move(*parts));
  }
}

std::string data_url(std::string_view media, std::string_view base64) {
  return base64.starts_with("data:") ? std::string(base64) : fmt::format("data:{};base64,{}", media, base64);
}

}  // namespace rocmforge
