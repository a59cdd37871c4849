#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/api/api_error.h"
#include "server/http/http.h"

namespace rocmforge {

/// Who may use the server: keys, and web pages of other origins.
class AccessRules {
 public:
  /// Without keys everyone may. `origins`: "*" or "https://example.org"; none: pages of this server alone.
  /// `local`: the server is for this machine, which is not called by names of the network.
  AccessRules(std::vector<std::string> keys, std::vector<std::string> origins, bool local = false);

  /// The key is read from `Authorization: Bearer` or `X-Api-Key` and compared in the same time wherever it differs.
  [[nodiscard]] bool has_key(const HttpRequest& request) const;
  /// False for a request that a browser sends for a page of an origin that is not allowed.
  [[nodiscard]] bool allows_origin(const HttpRequest& request) const;
  /// False where the address that a request was sent to is a name somebody made for this machine's own: a page from there
  /// would pass for this server's. Keys, which such a page does not have, and allowed origins make any name right.
  [[nodiscard]] bool allows_host(const HttpRequest& request) const;
  /// What lets an allowed page read the answer.
  [[nodiscard]] HttpHeaders cors_headers(const HttpRequest& request) const;

 private:
  std::vector<std::string> keys_;
  std::vector<std::string> origins_;
  bool local_;
};

/// One key a line; blank lines and lines that begin with '#' are skipped. Throws Error for a file without a key.
std::vector<std::string> read_key_file(const std::string& path);

}  // namespace rocmforge
