#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace rocmforge::app {

/// A URL like "http://127.0.0.1:8080", taken apart.
struct HttpOrigin {
  std::string host;
  std::string port;
  std::string path{};  ///< prefix of the API's own paths: "" or "/gateway"; a "/v1" at the end is removed

  /// Throws UsageError.
  static HttpOrigin parse(const std::string& url);
};

/// A connection to an HTTP server, kept between requests. Throws Error with one line, and closes the connection then.
class StreamingClient {
 public:
  StreamingClient(HttpOrigin origin, std::int32_t timeout_seconds)
      : origin_(std::move(origin)), timeout_seconds_(timeout_seconds) {}
  ~StreamingClient() { close(); }
  StreamingClient(const StreamingClient&) = delete;
  StreamingClient& operator=(const StreamingClient&) = delete;

  /// Receives a piece of an answer's body; false closes the connection at once.
  using Take = std::function<bool(int status, std::string_view piece)>;
  /// Sends a request and passes on the answer as it arrives. Returns the status.
  int request(std::string_view method, std::string_view path, std::string_view api_key, const std::string& body,
              const Take& take);

 private:
  void connect();
  void close();
  void send(std::string_view text);
  int read_answer(const Take& take);
  /// Returns the number of bytes received, 0 at the end of the connection.
  std::size_t receive(char* to, std::size_t size);

  HttpOrigin origin_;
  std::int32_t timeout_seconds_;
  int socket_ = -1;
};

}  // namespace rocmforge::app
