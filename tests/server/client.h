#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace rocmforge {

using Json = nlohmann::ordered_json;

/// An HTTP answer as received.
struct HttpAnswer {
  int status = 0;                              ///< 0: no answer was received
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;                            ///< chunks put together
  bool complete = false;                       ///< the whole answer was received
  [[nodiscard]] Json json() const { return Json::parse(body); }
  /// The data of its events, less "[DONE]" and comments.
  [[nodiscard]] std::vector<Json> events() const;
  [[nodiscard]] bool done() const { return body.ends_with("data: [DONE]\n\n"); }
};

/// A connection that sends any bytes, valid or not.
class Connection {
 public:
  /// `from`: an address of this machine's own, such as "127.0.0.2", which makes another client.
  explicit Connection(std::uint16_t port, const std::string& from = "");
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// False when the other side does not accept the bytes.
  bool send(std::string_view bytes) const;
  void finish_sending() const;
  void close();
  /// Reads until `text` is received, the connection ends, or `time` has passed. Returns whether `text` was received.
  bool read_until(std::string_view text, std::chrono::milliseconds time = std::chrono::seconds(10));
  /// The next answer; `head_only` for one to HEAD.
  HttpAnswer read_answer(bool head_only = false, std::chrono::milliseconds time = std::chrono::seconds(20));
  /// Whether the other side closes, with nothing more to read.
  bool closes(std::chrono::milliseconds time = std::chrono::seconds(10));
  [[nodiscard]] const std::string& received() const { return received_; }
  /// Sets a small receive window, so that unread data soon fills it. Call before anything is received.
  void receive_slowly() const;

 private:
  bool receive(std::chrono::steady_clock::time_point end);

  int socket_ = -1;
  bool ended_ = false;
  std::string received_;  ///< bytes that read_answer has not used yet
};

std::string request_text(std::string_view method, std::string_view path, std::string_view body = {},
                         const std::vector<std::string>& headers = {});

HttpAnswer get(std::uint16_t port, std::string_view path, const std::vector<std::string>& headers = {});
HttpAnswer post(std::uint16_t port, std::string_view path, const Json& body, const std::vector<std::string>& headers = {});
HttpAnswer post_text(std::uint16_t port, std::string_view path, std::string_view body,
                     const std::vector<std::string>& headers = {});

}  // namespace rocmforge
