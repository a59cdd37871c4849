#pragma once

#include <string>

#include "server/http/http.h"

namespace rocmforge {

/// Why a request's head is refused; status 0 when it is not.
struct HeadRefusal {
  int status = 0;
  std::string message{};
};

/// Checks what the parser accepts although a proxy in front might read it in another way, and what this server does not
/// support. `version` is 11 for HTTP/1.1; `chunked`: the parser will decode chunks.
HeadRefusal check_head(const HttpRequest& request, unsigned version, bool chunked);

/// Splits a request target into path and query: "/a?b" or "http://host/a?b". False when it is neither.
bool split_target(std::string_view target, HttpRequest& request);

}  // namespace rocmforge
