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
  AccessRules(std::vector<std::string> keys, std::vector<std::string> origins);

  /// The key is read from `Authorization: Bearer` or `X-Api-Key` and compared in the same time wherever it differs.
  [[nodiscard]] bool has_key(const HttpRequest& request) const;
  /// False for a request that a browser sends for a page of an origin that is not allowed.
  [[nodiscard]] bool allows_origin(const HttpRequest& request) const;
  /// What lets an allowed page read the answer.
  [[nodiscard]] HttpHeaders cors_headers(const HttpRequest& request) const;

 private:
  std::vector<std::string> keys_;
  std::vector<std::string> origins_;
};

/// One key a line; blank lines and lines that begin with '#' are skipped. Throws Error for a file without a key.
std::vector<std::string> read_key_file(const std::string& path);

}  // namespace rocmforge
