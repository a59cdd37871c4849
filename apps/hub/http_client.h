#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace rocmforge::hub {

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers{};  ///< "Range: bytes=5-"
  std::string token{};                 ///< sent to the origin of `url` (scheme, host, port), never where a redirect leads
  int whole_seconds = 0;               ///< the time limit of the whole answer; 0: none while bytes arrive
};

struct HttpAnswer {
  long status = 0;
  std::string host;                            ///< the server of the answer
  std::map<std::string, std::string> headers;  ///< names in lower case
  int retry_after_seconds = 0;                 ///< 0: no such header

  [[nodiscard]] bool is_good() const { return status >= 200 && status < 300; }
  [[nodiscard]] std::string header(const std::string& name) const;
};

/// A transfer that failed: unknown host, no connection, an invalid certificate, a cut connection.
class TransferError : public Error {
 public:
  TransferError(std::string message, bool may_pass) : Error(std::move(message)), may_pass_(may_pass) {}
  /// Whether another attempt may succeed.
  [[nodiscard]] bool may_pass() const { return may_pass_; }

 private:
  bool may_pass_;
};

struct HttpSettings {
  std::string user_agent;
  std::string certificates;       ///< a file of them; "": the system's
  int stall_seconds = 30;         ///< the longest time without a byte of the body
  std::uint64_t least_speed = 0;  ///< bytes of the body a second, in every `stall_seconds` of a transfer; 0: any
  std::function<void()> beat{};   ///< called at least once a second during a wait; an exception ends it
  /// Whether a connection to that address may be made; also asked where a redirect leads. Proxies are not used then. Null:
  /// to any.
  bool (*may_reach)(const sockaddr& address) = nullptr;
  int redirects = 10;  ///< the most that are followed
};

/// HTTP and HTTPS by libcurl; its environment variables set proxies. Not thread-safe.
class HttpClient {
 public:
  /// Receives the body of an answer whose status is 2xx. False ends the transfer. get() rethrows its exceptions.
  using Body = std::function<bool(const HttpAnswer& answer, std::string_view bytes)>;

  explicit HttpClient(HttpSettings settings);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Follows redirects, from https only to https. Skips bodies of other statuses. Throws TransferError.
  HttpAnswer get(const HttpRequest& request, const Body& body);

  /// Calls HttpSettings::beat, during other long work than a transfer.
  void beat() const;
  /// Waits, with beats.
  void sleep(double seconds) const;

 private:
  class Handle;
  std::unique_ptr<Handle> handle_;
};

/// The origin of a URL: "https://huggingface.co:443". Throws Error if `url` is not a URL.
std::string origin_of(const std::string& url);
/// "huggingface.co", or "localhost:8080" if the port is not the scheme's.
std::string host_of(const std::string& url);
/// Resolves `reference`, from a header, against `base`. Throws Error.
std::string resolved_url(const std::string& base, const std::string& reference);
/// A path with reserved characters as %XX.
std::string encoded_path(std::string_view path);

}  // namespace rocmforge::hub
