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

#include "base/work_budget.h"
#include "server/api/json.h"
#include "server/http/http.h"
#include "server/metrics/server_metrics.h"
#include "server/request_log.h"
#include "server/request_memory.h"
#include "server/workers.h"

namespace rocmforge {

/// What one request may take.
struct Allowance {
  std::uint64_t work = 200'000'000;         ///< units of a WorkBudget, for reading it
  std::shared_ptr<RequestMemory> memory{};  ///< bytes of all requests; null: not counted
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  std::int32_t max_priority = 1000;  ///< how far below 0 its priority may be
};

/// One request and the way back, with an id. Counts the answer and writes its line to the log when it ends. Thread-safe but
/// for `request`.
class Exchange {
 public:
  /// `headers` go with every answer.
  Exchange(HttpRequest http_request, std::shared_ptr<HttpReply> reply, std::shared_ptr<RequestLog> log,
           ServerMetrics& metrics, HttpHeaders headers, const Allowance& allowance = {});
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  HttpRequest request;
  /// Of reading the request: spent by the thread that does.
  WorkBudget budget;

  /// Reading begins with a first attempt of so many units of work, after which it may begin again.
  void attempt(std::uint64_t units) { budget.begin(units); }
  /// As if nothing had been read.
  void begin_again();
  /// The body as JSON; its text is freed, unless an attempt may have to read it again. Throws ApiError.
  Document take_json();
  /// Counts more bytes for this request, until it has been answered. Throws ApiError(503) where there are not so many.
  void hold(std::int64_t bytes);
  /// Of what is counted so many are to stay; the rest is given back by release().
  void keep(std::int64_t bytes);
  /// What keep() has left over is free now.
  void release();
  /// The same for bytes that the answer needs to its end, whatever keep() says: a grammar's.
  void hold_to_end(std::int64_t bytes);
  [[nodiscard]] std::int64_t held_to_end() const { return to_end_; }
  /// The request has been read, for good: what that has taken is free now.
  void settle();
  [[nodiscard]] std::int64_t held() const { return memory_->amount() - surplus_; }
  /// The reading is of no use any more: work on it ends with Interrupted. The first reason counts.
  void interrupt(Interruption reason);
  [[nodiscard]] Interruption interruption() const { return interruption_; }
  [[nodiscard]] const Allowance& allowance() const { return allowance_; }

  /// Hex digits that no other request has.
  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] double seconds() const;  ///< since the request came
  [[nodiscard]] RequestLog& log() { return *log_; }

  /// Goes with the answer, which has not begun.
  void add_header(std::string name, std::string value) { headers_.emplace_back(std::move(name), std::move(value)); }
  void send(HttpResponse response);
  void send_json(const Json& json) { send(HttpResponse{.body = to_text(json)}); }
  /// Sends JSON that is made as the client takes it: `more` adds a piece and returns whether others follow. What is small is
  /// sent at once.
  void send_pieces(TextPieces more);
  void begin(HttpResponse head);
  bool write(std::string_view part) { return reply_->write(part); }
  void end();
  /// Ends the connection, where there is no memory to say anything.
  void drop() noexcept { reply_->drop(); }
  void on_drop(std::function<void()> dropped) { reply_->on_drop(std::move(dropped)); }

  /// Adds to the log's line, where there is memory for it.
  void note(const std::string& key, Json value);

 private:
  void forget_body();
  void finish(int status);
  void add_headers(HttpResponse& response) const;

  std::shared_ptr<HttpReply> reply_;
  Allowance allowance_;
  std::mutex memory_mutex_;              // guards the next two: the reader and who delivers the answer both count
  std::int64_t surplus_ = 0;             ///< of memory_, that release() gives back
  std::int64_t to_end_ = 0;              ///< the reader's alone
  std::shared_ptr<MemoryClaim> memory_;  ///< also the reply's, until the client has taken the answer
  std::atomic<Interruption> interruption_{Interruption::none};
  std::shared_ptr<RequestLog> log_;
  ServerMetrics& metrics_;
  std::string id_;
  HttpHeaders headers_;
  std::size_t own_headers_;  ///< the first of them, that no reading has added
  std::chrono::steady_clock::time_point came_;
  std::mutex mutex_;  // guards what follows
  Json notes_ = Json::object();
  int status_ = 0;
  bool finished_ = false;
};

/// 24 random hex digits.
std::string random_id();

}  // namespace rocmforge
