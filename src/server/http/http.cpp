#include "server/http/http.h"

#include <algorithm>
#include <boost/beast/http/status.hpp>

namespace rocmforge {

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::string_view HttpRequest::header(std::string_view name) const {
  const auto found = std::ranges::find_if(headers, [&](const auto& h) { return equal_ignoring_case(h.first, name); });
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

bool HttpRequest::has_header(std::string_view name) const {
  return std::ranges::any_of(headers, [&](const auto& h) { return equal_ignoring_case(h.first, name); });
}

std::string_view status_reason(int status) {
  const auto reason = boost::beast::http::obsolete_reason(boost::beast::http::int_to_status(static_cast<unsigned>(status)));
  return {reason.data(), reason.size()};
}

}  // namespace rocmforge
