#include "server/api/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/decimal.h"
#include "server/api/api_error.h"

namespace rocmforge {
namespace {

/// Whether the member reaches the chat template unchanged, with its long integers.
bool is_for_template(std::string_view member) {
  constexpr std::array<std::string_view, 3> members = {"messages", "tools", "chat_template_kwargs"};
  return std::ranges::find(members, member) != members.end();
}

}  // namespace

Json parse_body(std::string_view body, const ReadingCost& cost, bool takes_array) {
  if (body.empty()) {
    throw ApiError(400, "the request has no body: a JSON object is expected");
  }
  JsonDocument read = read_json(body, cost);
  Document document(std::move(read.value));
  if (!read.problem.empty()) {
    throw ApiError(400, fmt::format("the body is not valid JSON: {}", read.problem));
  }
  Json& json = document.root;
  if (takes_array && json.is_array()) {
    return rounded(std::move(json));
  }
  if (!json.is_object()) {
    const bool is_number = long_integer(json).has_value();
    throw ApiError(400,
                   fmt::format("the body is a JSON {}, an object is expected", is_number ? "number" : json.type_name()));
  }
  for (auto member = json.begin(); member != json.end(); ++member) {
    if (!is_for_template(member.key())) {
      *member = rounded(std::move(*member));
    }
  }
  return std::move(json);
}

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json number_of(float value) { return read_decimal(fmt::format("{}", value)).value; }

}  // namespace rocmforge
