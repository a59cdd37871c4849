#pragma once

#include <functional>
#include <string>
#include <utility>

#include "hub/http_client.h"

namespace rocmforge::hub {

/// How often something is tried again, and how long after.
class Retry {
 public:
  /// `on_wait` is told of each pause: why and how long.
  using OnWait = std::function<void(const std::string& reason, double seconds)>;
  explicit Retry(const HttpClient& client, OnWait on_wait = nullptr) : client_(client), on_wait_(std::move(on_wait)) {}

  /// Something has come: failures before count no more, and a line that was cut later is given longer to come back.
  void progress() {
    failures_ = 0;
    has_begun_ = true;
  }

  /// Sleeps before the next attempt. False when there were enough, or when the pause that the server asks for is too long.
  bool pause(const std::string& reason, int asked_seconds = 0);

 private:
  const HttpClient& client_;
  OnWait on_wait_;
  int failures_ = 0;
  bool has_begun_ = false;
};

/// Whether a server that answers so may answer otherwise a little later.
bool may_pass(long status);

}  // namespace rocmforge::hub
