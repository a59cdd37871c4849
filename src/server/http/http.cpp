#include "server/http/http.h"

#include <ostream>  // before status.hpp, which needs it

#include <algorithm>
#include <boost/beast/http/status.hpp>
#include <charconv>

#include "base/ascii.h"

namespace rocmforge {

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return ascii_lower(c); };
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::string_view HttpRequest::header(std::string_view name) const {
  const auto found = std::ranges::find_if(headers, [&](const auto& h) { return equal_ignoring_case(h.first, name); });
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

bool HttpRequest::has_header(std::string_view name) const {
  return std::ranges::any_of(headers, [&](const auto& h) { return equal_ignoring_case(h.first, name); });
}

std::optional<std::string> HttpRequest::parameter(std::string_view name) const {
  for (std::string_view rest = query; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find('&'));
    if (part.starts_with(name) && part.substr(name.size()).starts_with('=')) {
      return decode_percent(part.substr(name.size() + 1));
    }
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  }
  return std::nullopt;
}

std::string decode_percent(std::string_view text) {
  std::string decoded;
  while (!text.empty()) {
    unsigned byte = 0;
    const std::string_view digits = text.starts_with('%') ? text.substr(1, 2) : std::string_view();
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    const bool coded = digits.size() == 2 && error == std::errc() && end == digits.data() + 2;
    decoded += coded ? static_cast<char>(byte) : text.front();
    text.remove_prefix(coded ? 3 : 1);
  }
  return decoded;
}

std::string_view status_reason(int status) {
  const auto reason = boost::beast::http::obsolete_reason(boost::beast::http::int_to_status(static_cast<unsigned>(status)));
  return {reason.data(), reason.size()};
}

}  // namespace rocmforge
