#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "chat/json.h"
#include "chat/json_document.h"

namespace rocmforge {

using Json = nlohmann::ordered_json;

/// A document that takes no memory to be freed: clear().
struct Document {
  Json root;

  explicit Document(Json json) : root(std::move(json)) {}
  ~Document() { clear(root); }
  Document(Document&&) = default;
  Document& operator=(Document&&) = delete;
};

/// Parses a request's body. Throws ApiError(400) for what is no JSON, is nested deeper than max_json_depth, holds invalid
/// UTF-8 or a number that no double can hold, or is no object. Integers of more than 64 bits stay exact (long_integer) in
/// what reaches the chat template: messages, tools and chat_template_kwargs.
Json parse_body(std::string_view body, const ReadingCost& cost = {});

/// On one line; text that is no UTF-8 has U+FFFD in its place.
std::string to_text(const Json& json);

/// The shortest number that is read back as `value`: 0.8 for a float that is 0.800000011920929 as a double.
Json number_of(float value);

}  // namespace rocmforge
