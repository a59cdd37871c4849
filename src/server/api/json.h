#pragma once

#include <string>
#include <string_view>

#include "service/json.h"

namespace rocmforge {

/// Parses a request's body. Throws ApiError(400) for invalid JSON, nesting deeper than max_json_depth, invalid UTF-8, a
/// number beyond the range of a double, or a document that is not an object, nor an array where one is taken. Integers of
/// more than 64 bits stay exact (long_integer) in the parts that reach the chat template: messages, tools and
/// chat_template_kwargs.
Json parse_body(std::string_view body, const ReadingCost& cost = {}, bool takes_array = false);

/// On one line; invalid UTF-8 becomes U+FFFD.
std::string to_text(const Json& json);

/// The shortest number that parses as `value`: 0.8 for a float that is 0.800000011920929 as a double.
Json number_of(float value);

}  // namespace rocmforge
