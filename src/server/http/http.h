#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/request_memory.h"

namespace rocmforge {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct Route;

struct HttpRequest {
  std::string method;
  std::string path;              ///< as sent, without the query
  std::string query{};           ///< after '?', as sent
  std::string path_part{};       ///< of the path, for the name in braces of its route (Route::path)
  const Route* route = nullptr;  ///< that check_head has found
  HttpHeaders headers{};
  std::string body{};
  std::string client{};   ///< "127.0.0.1:50000"
  std::string account{};  ///< the client that the request counts for: the address, unless check_head sets another
  std::string owner{};    ///< whose the answer is: the API key's name that check_head sets; empty where there are no keys
  std::shared_ptr<MemoryClaim> memory{};  ///< the claim that counts the body

  /// The first header of that name, in any case; "" without one.
  [[nodiscard]] std::string_view header(std::string_view name) const;
  [[nodiscard]] bool has_header(std::string_view name) const;
  /// The decoded value of the query's first parameter of that name.
  [[nodiscard]] std::optional<std::string> parameter(std::string_view name) const;
};

/// A text in pieces: adds the next one and returns whether others follow.
using TextPieces = std::function<bool(std::string&)>;

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body{};
  HttpHeaders headers{};
  /// Makes the rest of the body when the client has taken what there is, on the network thread: a piece must be
  /// small. The thread serves others between pieces that take long together.
  TextPieces more{};
  std::string_view heartbeat{};   ///< of begin(): a literal that is written when nothing was for HttpLimits::heartbeat_time
  std::shared_ptr<void> holds{};  ///< kept until the client has taken the whole answer, or has disconnected
};

/// The reply to one request. Any thread may use it. A reply that is destroyed without an answer becomes a
/// 500; if there is no memory for that, the connection is closed.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  HttpReply() = default;
  HttpReply(const HttpReply&) = delete;
  HttpReply& operator=(const HttpReply&) = delete;

  /// The whole answer at once.
  virtual void send(HttpResponse response) = 0;
  /// Begins an answer of unknown length; `head.body` is its first part.
  virtual void begin(HttpResponse head) = 0;
  /// Adds a part. Does not block. False when the client has disconnected, or left so much unread that it was disconnected.
  virtual bool write(std::string_view part) = 0;
  /// Adds a part that is made as the client takes it, as HttpResponse::more: it does not count as unread.
  virtual bool write_pieces(TextPieces more) = 0;
  virtual void end() = 0;
  /// Closes the connection. Allocates nothing.
  virtual void drop() noexcept = 0;
  /// `dropped` is called once if the client disconnects before the end (at once if it already has), on a thread of the
  /// server.
  virtual void on_drop(std::function<void()> dropped) = 0;
};

/// The server's callbacks. All are called on the network thread, and must return
/// quickly.
struct HttpHandler {
  /// Checks a request before its body is read, and may set its account. Refuses it by returning a response.
  std::function<std::unique_ptr<HttpResponse>(HttpRequest&)> check_head;
  std::function<void(HttpRequest, std::shared_ptr<HttpReply>)> handle;
  /// The answer to a malformed request.
  std::function<HttpResponse(int status, std::string_view message, std::string_view client)> error;
  /// Whether a request without a body is answered even when all connections are taken; null: never.
  std::function<bool(const HttpRequest&)> is_vital{};
};

/// "OK", "Not Found"
std::string_view status_reason(int status);

/// Decodes "%2F" and the like in a path or a query; invalid codes are left as they are.
std::string decode_percent(std::string_view text);

/// Whether two header values are equal, ignoring case.
bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace rocmforge
