#pragma once

#include <functional>
#include <string>
#include <utility>

#include "hub/http_client.h"

namespace rocmforge::hub {

/// Counts retries and pauses before each.
class Retry {
 public:
  /// `on_wait` is called for each pause, with the reason and the length.
  using OnWait = std::function<void(const std::string& reason, double seconds)>;
  explicit Retry(const HttpClient& client, OnWait on_wait = nullptr) : client_(client), on_wait_(std::move(on_wait)) {}

  /// Bytes have arrived: earlier failures no longer count, and a connection that is cut later gets more time to come back.
  void progress() {
    failures_ = 0;
    has_begun_ = true;
  }

  /// Sleeps before the next attempt. False after too many attempts, or when the server asks for too long a pause.
  bool pause(const std::string& reason, int asked_seconds = 0);

 private:
  const HttpClient& client_;
  OnWait on_wait_;
  int failures_ = 0;
  bool has_begun_ = false;
};

/// Whether the status is temporary, so that a later request may succeed.
bool may_pass(long status);

}  // namespace rocmforge::hub
