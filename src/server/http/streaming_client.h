#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "server/http/http.h"

namespace rocmforge {

/// Where a server listens.
struct HttpOrigin {
  std::string host;  ///< a name, an address, or the path of a unix socket (is_socket_path), which has no port
  std::string port{};
  std::string path{};  ///< prefix of the API's own paths: "" or "/gateway"; a "/v1" at the end is removed

  /// Takes a URL like "http://127.0.0.1:8080" apart. Throws Error.
  static HttpOrigin parse(const std::string& url);
};

/// A request of StreamingClient. Content-Length and Host are added.
struct HttpCall {
  std::string_view method;
  std::string_view target;  ///< path and query
  HttpHeaders headers{};
  std::string_view body{};
};

/// The head of an answer.
struct HttpAnswer {
  int status = 0;
  HttpHeaders headers{};
};

/// A connection to an HTTP server, kept between requests. Throws Error with one line, and closes the connection then.
class StreamingClient {
 public:
  /// `timeout_seconds`: without a byte; 0: any time.
  StreamingClient(HttpOrigin origin, std::int32_t timeout_seconds)
      : origin_(std::move(origin)), timeout_seconds_(timeout_seconds) {}
  ~StreamingClient() { close(); }
  StreamingClient(const StreamingClient&) = delete;
  StreamingClient& operator=(const StreamingClient&) = delete;

  /// Receives the answer's head with an empty piece, then pieces of its body; false closes the connection at once.
  using Take = std::function<bool(const HttpAnswer& head, std::string_view piece)>;
  /// Sends a request and passes on the answer as it arrives. Returns the status.
  int request(const HttpCall& call, const Take& take);
  /// Ends the running request and every later one with an Error. Any thread may call it.
  void stop();

 private:
  void connect();
  void connect_to_socket();
  void connect_to_host();
  bool connect_to(int family, int protocol, const void* address, std::size_t size);
  void close();
  void send(std::string_view text);
  int read_answer(const Take& take);
  /// Returns the number of bytes received, 0 at the end of the connection.
  std::size_t receive(char* to, std::size_t size);

  HttpOrigin origin_;
  std::int32_t timeout_seconds_;
  std::mutex mutex_;  // guards changes of the members below, which only the thread of request() makes
  int socket_ = -1;
  bool stopped_ = false;
};

}  // namespace rocmforge
