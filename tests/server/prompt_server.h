#pragma once

#include <memory>
#include <mutex>

#include "server/running_server.h"

namespace rocmforge {

/// A server whose model answers "hi" and remembers the prompt that it was given last.
class PromptServer {
 public:
  explicit PromptServer(const TestServerOptions& options) {
    server_ = std::make_unique<FakeServer>(options, [seen = seen_](const FakeModel::Tokens& visible) {
      const std::lock_guard lock(seen->mutex);
      if (visible.back() != byte_ids("h").front() && visible.back() != byte_ids("i").front()) {
        seen->prompt = visible;
        return byte_ids("h").front();
      }
      return visible.back() == byte_ids("h").front() ? byte_ids("i").front() : end_token;
    });
  }

  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  [[nodiscard]] FakeModel::Tokens prompt() const {
    const std::lock_guard lock(seen_->mutex);
    return seen_->prompt;
  }

 private:
  struct Seen {
    std::mutex mutex;
    FakeModel::Tokens prompt;
  };
  std::shared_ptr<Seen> seen_ = std::make_shared<Seen>();
  std::unique_ptr<FakeServer> server_;
};

}  // namespace rocmforge
