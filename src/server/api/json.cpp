#include "server/api/json.h"

#include <fmt/format.h>

#include <string>

#include "server/api/api_error.h"

namespace rocmforge {

Json parse_body(std::string_view body) {
  if (body.empty()) {
    throw ApiError(400, "the request has no body: a JSON object is expected");
  }
  const auto limit_depth = [](int depth, Json::parse_event_t, Json&) {
    if (depth > max_json_depth) {
      throw ApiError(400, fmt::format("the JSON is nested deeper than {} levels", max_json_depth));
    }
    return true;
  };
  Json json;
  try {
    json = Json::parse(body.begin(), body.end(), limit_depth);
  } catch (const Json::parse_error& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..." less the library's own name for it.
    const std::string_view text = error.what();
    throw ApiError(400,
                   fmt::format("the body is not valid JSON: {}", text.substr(std::min(text.find("] ") + 2, text.size()))));
  } catch (const Json::exception&) {
    throw ApiError(400, "the body is not valid JSON: it holds a number that is too large");
  }
  if (!json.is_object()) {
    throw ApiError(400, fmt::format("the body is a JSON {}, an object is expected", json.type_name()));
  }
  return json;
}

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json number_of(float value) { return std::stod(fmt::format("{}", value)); }

}  // namespace rocmforge
