#pragma once

#include "server/http/http.h"
#include "server/http_exchange.h"

namespace rocmforge {

// A router asks servers at unix sockets that only it can open. It has checked the client's key, and says by headers whose
// the request is. A header of a client with such a name is not passed on.

/// Whether a header is the router's.
[[nodiscard]] bool is_forwarded_header(std::string_view name);

/// The headers for a request of this client with these limits.
HttpHeaders forwarded_headers(const HttpRequest& request, const RequestLimits& limits);

/// Sets the client, its account and the answer's owner from the headers.
void take_forwarded_client(HttpRequest& request);
/// Sets the largest priority and the space of prefixes from the headers.
void take_forwarded_limits(const HttpRequest& request, RequestLimits& limits);

}  // namespace rocmforge
