#include "server/api/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "server/api/api_error.h"

namespace rocmforge {
namespace {

/// What reaches the chat template as it came, with its long integers.
bool is_for_template(std::string_view member) {
  constexpr std::array<std::string_view, 3> members = {"messages", "tools", "chat_template_kwargs"};
  return std::ranges::find(members, member) != members.end();
}

}  // namespace

Json parse_body(std::string_view body, const ReadingCost& cost) {
  if (body.empty()) {
    throw ApiError(400, "the request has no body: a JSON object is expected");
  }
  JsonDocument document = read_json(body, cost);
  if (!document.problem.empty()) {
    throw ApiError(400, fmt::format("the body is not valid JSON: {}", document.problem));
  }
  Json json = std::move(document.value);
  if (!json.is_object()) {
    throw ApiError(400, fmt::format("the body is a JSON {}, an object is expected", rounded(std::move(json)).type_name()));
  }
  for (auto member = json.begin(); member != json.end(); ++member) {
    if (!is_for_template(member.key())) {
      *member = rounded(std::move(*member));
    }
  }
  return json;
}

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json number_of(float value) { return std::stod(fmt::format("{}", value)); }

}  // namespace rocmforge
