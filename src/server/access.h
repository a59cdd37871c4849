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

/// What a client with a key may do.
struct ApiKey {
  ApiKey(std::string key, std::optional<std::int32_t> priority = {}) : text(std::move(key)), max_priority(priority) {}
  ApiKey(const char* key) : text(key) {}

  std::string text;
  std::optional<std::int32_t> max_priority{};  ///< how far below 0 its priorities may be; empty: the server's limit

  friend bool operator==(const ApiKey&, const ApiKey&) = default;
};

/// Tells the prefixes of a key apart from those of others, also after its place among the keys has changed: 64 hex digits.
std::string prefix_space_of(const ApiKey& key);

/// Checks keys, the origins of web pages and the names by which the server is called.
class AccessRules {
 public:
  /// Without keys every client is allowed. `origins`: "*" or "https://example.org"; none: only pages of this server.
  /// `hosts`: the server's names on the network beside its addresses and "localhost", without ports; "*": any.
  AccessRules(std::vector<ApiKey> keys, std::vector<std::string> origins, std::vector<std::string> hosts = {"*"});

  /// The key is read from `Authorization: Bearer` or `X-Api-Key` and compared in constant time.
  [[nodiscard]] bool has_key(const HttpRequest& request) const { return keys_.empty() || key_of(request).has_value(); }
  /// The index of the client's key; empty where there are no keys, or it is wrong.
  [[nodiscard]] std::optional<std::size_t> key_of(const HttpRequest& request) const;
  [[nodiscard]] const ApiKey& key(std::size_t index) const { return keys_[index]; }
  /// False for a request of a web page whose origin is not allowed.
  [[nodiscard]] bool allows_origin(const HttpRequest& request) const;
  /// False if the Host header names another machine: a page of that name could pass for a page of this server by DNS
  /// rebinding. Always true if there are keys, which such a page does not have, or for hosts of allowed origins.
  [[nodiscard]] bool allows_host(const HttpRequest& request) const;
  /// The header that lets an allowed page read the answer.
  [[nodiscard]] HttpHeaders cors_headers(const HttpRequest& request) const;

 private:
  std::vector<ApiKey> keys_;
  std::vector<std::string> origins_;
  std::vector<std::string> hosts_;
};

/// The name of this machine; "" if the system has none. Without its domain it is a local name in any case.
std::string machine_name();

/// Reads one key per line, optionally followed by "max-priority=N"; blank lines and lines that begin with '#' are skipped.
/// Throws Error for a file without a key, for an N that is not a number from 0 to 1000, and for a file that every user of
/// the machine may read, or that others than its owner may write.
std::vector<ApiKey> read_key_file(const std::string& path);

}  // namespace rocmforge
