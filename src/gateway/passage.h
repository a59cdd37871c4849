#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/forwarder.h"
#include "server/http/streaming_client.h"

namespace rocmforge {

/// One request on its way to a model's server. run() throws ApiError while nothing of the answer has been sent.
class Forwarder::Passage : public std::enable_shared_from_this<Forwarder::Passage> {
 public:
  /// Takes the request's body.
  Passage(ModelPool& pool, std::shared_ptr<HttpExchange> exchange, const ServerState& state, bool asks_loaded);

  void run();
  /// Ends the wait for a model, or the connection to its server, which then drops the request. Any thread may call it.
  void interrupt(Interruption reason);

 private:
  [[nodiscard]] std::string_view method() const;
  void ask_named();
  void ask_all_loaded();
  /// The model of the request. Throws ApiError for one that is not known, and where several are and none is named.
  [[nodiscard]] std::string model_of(const AskedModel& asked) const;
  [[nodiscard]] std::unique_ptr<ModelPool::Use> acquire(const std::string& name, const AskedModel& asked);
  /// Passes the request on, and begins or keeps what comes back; with `skips_404` nothing of such an answer. Returns the
  /// status.
  int pass(const ModelPool::Use& use, bool skips_404);
  int request(const ModelPool::Use& use);
  bool take(const HttpAnswer& head, std::string_view piece);
  void begin(const HttpAnswer& head);
  void finish(int status);
  void report_loss(const ModelPool::Use& use, const std::string& problem);
  [[nodiscard]] ApiError stopped(Interruption reason) const;

  ModelPool& pool_;
  std::shared_ptr<HttpExchange> exchange_;
  const ServerState& state_;
  const bool asks_loaded_;
  const std::string body_;
  const std::shared_ptr<MemoryClaim> body_memory_;
  ModelPool::Waiter waiter_;
  std::mutex mutex_;                   // guards the next one
  StreamingClient* client_ = nullptr;  ///< while a request runs

  HttpResponse answer_{};  ///< the head, and of a whole answer the body so far
  bool has_head_ = false;
  bool has_begun_ = false;  ///< a stream was begun
  bool skips_404_ = false;
  std::optional<MemoryClaim> memory_;  ///< of a whole answer's body
};

}  // namespace rocmforge
