#include "server/forwarded_client.h"

#include <charconv>
#include <string>

namespace rocmforge {
namespace {

constexpr std::string_view prefix = "X-Router-";
constexpr const char *client = "X-Router-Client", *account = "X-Router-Account", *owner = "X-Router-Owner",
                     *priority = "X-Router-Priority", *space = "X-Router-Prefix-Space";

}  // namespace

bool is_forwarded_header(std::string_view name) { return equal_ignoring_case(name.substr(0, prefix.size()), prefix); }

HttpHeaders forwarded_headers(const HttpRequest& request, const RequestLimits& limits) {
  return {{client, request.client},
          {account, request.account},
          {owner, request.owner},
          {priority, std::to_string(limits.max_priority)},
          {space, limits.prefix_space}};
}

void take_forwarded_client(HttpRequest& request) {
  request.client = request.header(client);
  request.account = request.header(account);
  request.owner = request.header(owner);
}

void take_forwarded_limits(const HttpRequest& request, RequestLimits& limits) {
  const std::string_view digits = request.header(priority);
  std::from_chars(digits.data(), digits.data() + digits.size(), limits.max_priority);
  limits.prefix_space = request.header(space);
}

}  // namespace rocmforge
