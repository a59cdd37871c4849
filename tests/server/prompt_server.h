#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "server/local_server.h"

namespace rocmforge {

/// A server whose model answers "hi" and remembers the prompt that it was given last.
class PromptServer : public LocalServer {
 public:
  explicit PromptServer(const TestServerOptions& options) : PromptServer(options, std::make_shared<Seen>()) {}

  [[nodiscard]] FakeModel::Tokens prompt() const {
    const std::lock_guard lock(seen_->mutex);
    return seen_->prompt;
  }

 private:
  struct Seen {
    std::mutex mutex;
    FakeModel::Tokens prompt;
  };

  PromptServer(const TestServerOptions& options, std::shared_ptr<Seen> seen)
      : LocalServer(options, [seen](const FakeModel::Tokens& visible) { return next(*seen, visible); }),
        seen_(std::move(seen)) {}

  static std::int32_t next(Seen& seen, const FakeModel::Tokens& visible) {
    const std::lock_guard lock(seen.mutex);
    if (visible.back() != byte_ids("h").front() && visible.back() != byte_ids("i").front()) {
      seen.prompt = visible;
      return byte_ids("h").front();
    }
    return visible.back() == byte_ids("h").front() ? byte_ids("i").front() : end_token;
  }

  std::shared_ptr<Seen> seen_;
};

}  // namespace rocmforge
