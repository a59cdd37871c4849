#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "server/api/json.h"
#include "server/http/http.h"
#include "server/metrics/server_metrics.h"
#include "server/request_log.h"

namespace rocmforge {

/// One request and the way back, with an id. Counts the answer and writes its line to the log when it ends. Thread-safe but
/// for `request`.
class Exchange {
 public:
  /// `headers` go with every answer.
  Exchange(HttpRequest http_request, std::shared_ptr<HttpReply> reply, RequestLog& log, ServerMetrics& metrics,
           HttpHeaders headers);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  HttpRequest request;

  /// Hex digits that no other request has.
  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] double seconds() const;  ///< since the request came
  [[nodiscard]] RequestLog& log() { return log_; }

  /// Goes with the answer, which has not begun.
  void add_header(std::string name, std::string value) { headers_.emplace_back(std::move(name), std::move(value)); }
  void send(HttpResponse response);
  void send_json(const Json& json) { send(HttpResponse{.body = to_text(json)}); }
  void begin(HttpResponse head);
  bool write(std::string_view part) { return reply_->write(part); }
  void end();
  void on_drop(std::function<void()> dropped) { reply_->on_drop(std::move(dropped)); }

  /// Adds to the log's line.
  void note(const std::string& key, Json value);

 private:
  void finish(int status);
  void add_headers(HttpResponse& response) const;

  std::shared_ptr<HttpReply> reply_;
  RequestLog& log_;
  ServerMetrics& metrics_;
  std::string id_;
  HttpHeaders headers_;
  std::chrono::steady_clock::time_point came_;
  std::mutex mutex_;  // guards what follows
  Json notes_ = Json::object();
  int status_ = 0;
  bool finished_ = false;
};

/// 24 random hex digits.
std::string random_id();

}  // namespace rocmforge
