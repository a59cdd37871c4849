#include "hub/image_fetch.h"

#include <fmt/format.h>

#include <string_view>

#include "base/error.h"
#include "hub/http_client.h"

namespace rocmforge::hub {

std::string fetch_image(const std::string& url, std::size_t most_bytes, const ImageFetch& options) {
  HttpSettings settings;
  settings.user_agent = "rocmforge";
  settings.stall_seconds = options.seconds;
  settings.may_reach = options.may_reach;
  settings.redirects = options.redirects;
  HttpClient client(std::move(settings));
  std::string bytes;
  bool is_whole = true;
  const HttpAnswer answer =
      client.get({.url = url, .whole_seconds = options.seconds}, [&](const HttpAnswer&, std::string_view more) {
        is_whole = bytes.size() + more.size() <= most_bytes;
        bytes += is_whole ? more : std::string_view();
        return is_whole;
      });
  if (!answer.is_good()) {
    throw Error(fmt::format("{}: it answers with status {}", answer.host, answer.status));
  }
  if (!is_whole) {
    throw Error(fmt::format("{}: the image has more than {} bytes", answer.host, most_bytes));
  }
  return bytes;
}

}  // namespace rocmforge::hub
