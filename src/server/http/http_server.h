#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/http.h"

namespace rocmforge {

struct HttpLimits {
  std::size_t head_bytes = std::size_t{16} << 10;  ///< request line and headers; more is answered with 431
  std::size_t body_bytes = std::size_t{8} << 20;   ///< more is answered with 413
  std::size_t unread_bytes = std::size_t{1}
                             << 20;             ///< of a streamed answer that a client may leave unread before it is dropped
  std::int32_t connections = 1024;              ///< beyond this, idle ones are closed, the oldest first
  std::int32_t reserved_connections = 64;       ///< more connections, only for vital requests; other requests get 503
  std::int32_t client_share = 50;               ///< percent of the connections that one address may use beside others
  std::chrono::milliseconds head_time{10'000};  ///< from the connection, or the first byte, to the end of the headers
  std::chrono::milliseconds reserved_head_time{2'000};  ///< the same of reserved connections
  std::chrono::milliseconds body_time{60'000};          ///< from there to the end of the body
  std::chrono::milliseconds idle_time{60'000};          ///< between two requests of a connection
  std::chrono::milliseconds write_time{20'000};         ///< without a byte taken by the client
  std::chrono::milliseconds heartbeat_time{5'000};      ///< in a stream, without anything to write
};

/// Whether a host is the path of a unix socket: it has a '/', or ends with ".sock".
[[nodiscard]] bool is_socket_path(std::string_view host);

/// HTTP/1.1 on one thread: any number of connections, none of which delays another. Boost.Beast does the parsing and
/// refuses bare line feeds, contradicting lengths and malformed chunks; `http_head.h` checks the rest.
class HttpServer {
 public:
  /// Binds and listens; throws Error when the address can't be used. `port` 0 takes a free one. `host` may be the path of a
  /// unix socket, whose file is removed at the end; it has no port. `memory` counts the bytes of
  /// bodies and of unread streams; null: they are not counted.
  HttpServer(const std::string& host, std::uint16_t port, HttpLimits limits, HttpHandler handler,
             std::shared_ptr<RequestMemory> memory = nullptr);
  /// Stops. All replies must be destroyed before.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Closes all connections: no request arrives any more, and writing to replies does nothing.
  void stop();

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::int32_t connections() const;
  /// The number of connections examined so far to find one to close. For tests.
  [[nodiscard]] std::int64_t looked_at() const;

  /// Accepts no more connections and closes idle ones; running requests go on. Waits for them up to `limit`, or until
  /// `hurry` is true. Returns whether all have ended.
  bool drain(std::chrono::milliseconds limit, const std::function<bool()>& hurry = {});

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace rocmforge
