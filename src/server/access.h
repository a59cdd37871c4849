#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/api/api_error.h"
#include "server/http/http.h"

namespace rocmforge {

/// What lets a client in.
struct ApiKey {
  ApiKey(std::string key, std::optional<std::int32_t> priority = {}) : text(std::move(key)), max_priority(priority) {}
  ApiKey(const char* key) : text(key) {}

  std::string text;
  std::optional<std::int32_t> max_priority{};  ///< how far below 0 its requests' priorities may be; empty: as everybody's

  friend bool operator==(const ApiKey&, const ApiKey&) = default;
};

/// Who may use the server: keys, and web pages of other origins.
class AccessRules {
 public:
  /// Without keys everyone may. `origins`: "*" or "https://example.org"; none: pages of this server alone.
  /// `local`: the server is for this machine, which is not called by names of the network.
  AccessRules(std::vector<ApiKey> keys, std::vector<std::string> origins, bool local = false);

  /// The key is read from `Authorization: Bearer` or `X-Api-Key` and compared in the same time wherever it differs.
  [[nodiscard]] bool has_key(const HttpRequest& request) const { return keys_.empty() || key_of(request).has_value(); }
  /// The index of its key; empty where there are no keys, or none is right.
  [[nodiscard]] std::optional<std::size_t> key_of(const HttpRequest& request) const;
  [[nodiscard]] const ApiKey& key(std::size_t index) const { return keys_[index]; }
  /// False for a request that a browser sends for a page of an origin that is not allowed.
  [[nodiscard]] bool allows_origin(const HttpRequest& request) const;
  /// False where the address that a request was sent to is a name somebody made for this machine's own: a page from there
  /// would pass for this server's. Keys, which such a page does not have, and allowed origins make any name right.
  [[nodiscard]] bool allows_host(const HttpRequest& request) const;
  /// What lets an allowed page read the answer.
  [[nodiscard]] HttpHeaders cors_headers(const HttpRequest& request) const;

 private:
  std::vector<ApiKey> keys_;
  std::vector<std::string> origins_;
  bool local_;
};

/// One key a line, behind which "max-priority=N" may stand; blank lines and lines that begin with '#' are skipped. Throws
/// Error for a file without a key and for an N that is no number from 0 to 1000.
std::vector<ApiKey> read_key_file(const std::string& path);

}  // namespace rocmforge
