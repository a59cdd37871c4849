#include "server/http/http_head.h"

#include <algorithm>

namespace rocmforge {
namespace {

std::ptrdiff_t count(const HttpRequest& request, std::string_view name) {
  return std::ranges::count_if(request.headers, [&](const auto& h) { return equal_ignoring_case(h.first, name); });
}

}  // namespace

// RFC 9112, sections 3.2 and 6.1: a missing or repeated Host is a 400, a transfer coding that is not understood a 501. A
// coding the parser does not know would otherwise leave the body to be read as the next request.
HeadRefusal check_head(const HttpRequest& request, unsigned version, bool chunked) {
  if (version != 10 && version != 11) {
    return {505, "only HTTP/1.0 and HTTP/1.1 are spoken here"};
  }
  if (count(request, "Host") > 1 || (version == 11 && count(request, "Host") == 0)) {
    return {400, "a request names exactly one Host"};
  }
  if (request.has_header("Transfer-Encoding")) {
    if (version == 10) {
      return {400, "HTTP/1.0 has no Transfer-Encoding"};
    }
    if (!chunked || count(request, "Transfer-Encoding") != 1 ||
        !equal_ignoring_case(request.header("Transfer-Encoding"), "chunked")) {
      return {501, "the only transfer coding is chunked"};
    }
  }
  if (count(request, "Content-Length") > 1) {
    return {400, "a request has one Content-Length"};
  }
  // The parser accepts a list of equal numbers, which a proxy may read in another way.
  if (request.header("Content-Length").find_first_not_of("0123456789") != std::string_view::npos) {
    return {400, "the Content-Length is no number"};
  }
  if (request.has_header("Content-Encoding") && !equal_ignoring_case(request.header("Content-Encoding"), "identity")) {
    return {415, "compressed bodies are not accepted"};
  }
  if (request.has_header("Expect") && !equal_ignoring_case(request.header("Expect"), "100-continue")) {
    return {417, "the only expectation is 100-continue"};
  }
  return {};
}

bool split_target(std::string_view target, HttpRequest& request) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.starts_with(scheme)) {
      const std::size_t slash = target.find_first_of("/?", scheme.size());
      target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
      break;
    }
  }
  if (target != "*" && !target.starts_with('/')) {
    return false;
  }
  const std::size_t question = target.find('?');
  request.path = target.substr(0, question);
  request.query = question == std::string_view::npos ? std::string_view() : target.substr(question + 1);
  return true;
}

}  // namespace rocmforge
