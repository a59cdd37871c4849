#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/api/json.h"
#include "server/http/http.h"
#include "server/request_log.h"
#include "service/metrics.h"
#include "service/reading.h"
#include "service/request_memory.h"
#include "service/workers.h"

namespace rocmforge {

/// Limits of one request.
struct RequestLimits {
  std::uint64_t work = 200'000'000;         ///< units of a WorkBudget, for reading it
  std::shared_ptr<RequestMemory> memory{};  ///< bytes of all requests and answers; null: not counted
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  std::int32_t max_priority = 1000;  ///< how far below 0 its priority may be
  std::string prefix_space{};        ///< computed prefixes are shared with requests of the same space (prefix_space_of)
};

/// One request and its reply, with an id. Counts the answer, and writes its line to the log when it ends. Thread-safe,
/// except for `request`.
class HttpExchange {
 public:
  /// `headers` are sent with every answer.
  HttpExchange(HttpRequest http_request, std::shared_ptr<HttpReply> reply, std::shared_ptr<RequestLog> log,
               ServiceMetrics& metrics, HttpHeaders headers, const RequestLimits& limits = {});
  ~HttpExchange();
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  HttpRequest request;
  /// What reading the request may use. What it counts is held until the client has taken the answer.
  Reading reading;

  /// Limits the first attempt at reading to so many units of work. After it reading may start again.
  void attempt(std::uint64_t units) { reading.budget.begin(units); }
  /// Discards what was read, to start again.
  void begin_again();
  /// The body as JSON, an object, or with `takes_array` an array. Its text is freed, unless another attempt may have to read
  /// it. Throws ApiError.
  Document take_json(bool takes_array = false);
  /// The request has been read: frees what only reading needed.
  void settle();
  /// Cancels the reading: work on it ends with Interrupted. The first reason counts.
  void interrupt(Interruption reason);
  [[nodiscard]] Interruption interruption() const { return interruption_; }
  [[nodiscard]] const RequestLimits& limits() const { return limits_; }

  /// The request's X-Request-Id, so that a log can be followed through proxies; else hex digits that no other request has.
  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] double seconds() const;  ///< since the request arrived
  [[nodiscard]] RequestLog& log() { return *log_; }

  /// Adds a header to the answer, which has not begun.
  void add_header(std::string name, std::string value) { headers_.emplace_back(std::move(name), std::move(value)); }
  /// Bytes of a body of more than 64 KiB are counted until the client has taken them. Throws ApiError(503) where there is
  /// not enough memory; then nothing was sent.
  void send(HttpResponse response);
  void send_json(const Json& json) { send(HttpResponse{.body = to_text(json)}); }
  /// Sends JSON, or text of another type, that is made as the client takes it: `more` adds a piece and returns whether
  /// others follow. A small answer is sent at once.
  void send_pieces(TextPieces more, std::string_view content_type = "application/json");
  void begin(HttpResponse head);
  bool write(std::string_view part) { return reply_->write(part); }
  /// Adds a part that is made as the client takes it. What is counted for this request stays counted until then.
  bool write_pieces(TextPieces more);
  void end();
  /// Ends the connection, where there is no memory for an answer.
  void drop() noexcept { reply_->drop(); }
  void on_drop(std::function<void()> dropped) { reply_->on_drop(std::move(dropped)); }

  /// Adds to the log's line, if there is memory for it.
  void note(const std::string& key, Json value);

 private:
  void forget_body();
  void finish(int status);
  void add_headers(HttpResponse& response) const;

  std::shared_ptr<HttpReply> reply_;
  RequestLimits limits_;
  std::atomic<Interruption> interruption_{Interruption::none};
  std::shared_ptr<RequestLog> log_;
  ServiceMetrics& metrics_;
  std::string id_;
  HttpHeaders headers_;
  std::size_t own_headers_;  ///< the number of them that were given to the constructor
  std::chrono::steady_clock::time_point came_;
  std::mutex mutex_;  // guards the members below
  Json notes_ = Json::object();
  int status_ = 0;
  bool finished_ = false;
};

/// 24 random hex digits.
std::string random_id();
/// The request's X-Request-Id where it is at most 128 letters, digits, '-', '_', '.' and ':'; else random_id().
std::string id_of(const HttpRequest& request);

}  // namespace rocmforge
