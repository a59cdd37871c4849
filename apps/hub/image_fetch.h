#pragma once

#include <cstddef>
#include <string>

#include "hub/public_address.h"

namespace rocmforge::hub {

/// Limits of fetching an image for a client, who may name any address.
struct ImageFetch {
  bool (*may_reach)(const sockaddr& address) = is_public_address;
  int redirects = 3;
  int seconds = 10;  ///< of an answer and of each redirect
};

/// The bytes at an http or https URL. The address of each connection is asked about, after names were resolved. No token,
/// cookie or proxy is used. Throws Error with one line: an address that may not be reached, a status other than 2xx, more
/// bytes than `most_bytes`, a transfer that failed; in a build without libcurl always.
std::string fetch_image(const std::string& url, std::size_t most_bytes, const ImageFetch& options = {});

}  // namespace rocmforge::hub
