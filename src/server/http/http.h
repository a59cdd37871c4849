#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/request_memory.h"

namespace rocmforge {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  std::string path;     ///< as sent, without the query
  std::string query{};  ///< after '?', as sent
  HttpHeaders headers{};
  std::string body{};
  std::string client{};   ///< "127.0.0.1:50000"
  std::string account{};  ///< whom the request counts for: the client's address, unless check_head names somebody
  std::shared_ptr<MemoryClaim> memory{};  ///< what the body counts for

  /// The first header of that name in any case; "" when there is none.
  [[nodiscard]] std::string_view header(std::string_view name) const;
  [[nodiscard]] bool has_header(std::string_view name) const;
};

/// A text in pieces: adds the next one and returns whether others follow.
using TextPieces = std::function<bool(std::string&)>;

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body{};
  HttpHeaders headers{};
  /// The rest of the body, made when the client has taken what there is, on the thread that moves the bytes: a piece must be
  /// small.
  TextPieces more{};
  std::shared_ptr<void> holds{};  ///< kept until the client has taken all of it, or has gone
};

/// The way back to the client of one request. Any thread may use it. A reply that is destroyed without an answer becomes a
/// 500, and where there is no memory for that, the end of the connection.
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
  /// Adds a part. Never waits: false when the client has gone, or has left so much unread that it was dropped.
  virtual bool write(std::string_view part) = 0;
  virtual void end() = 0;
  /// Closes the connection. Takes no memory.
  virtual void drop() noexcept = 0;
  /// `dropped` is called once when the client goes before the end (at once when it already has), on a thread of the server.
  virtual void on_drop(std::function<void()> dropped) = 0;
};

/// What the server asks of the program behind it. All are called on the thread that moves the bytes: they must not take
/// long.
struct HttpHandler {
  /// Looks at a request before its body is read, and may name its account. A response refuses it.
  std::function<std::unique_ptr<HttpResponse>(HttpRequest&)> check_head;
  std::function<void(HttpRequest, std::shared_ptr<HttpReply>)> handle;
  /// The answer to what is no proper request of this client.
  std::function<HttpResponse(int status, std::string_view message, std::string_view client)> error;
  /// Whether a request without a body is answered however many connections there are; null: none is.
  std::function<bool(const HttpRequest&)> is_vital{};
};

/// "OK", "Not Found"
std::string_view status_reason(int status);

/// A path's text with "%2F" and the like as the bytes they stand for; what is no such code stays.
std::string decode_percent(std::string_view text);

/// Whether two header values are the same in any case.
bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace rocmforge
