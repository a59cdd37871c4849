#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "apps/program.h"
#include "engine/fake_model.h"
#include "server/server.h"

namespace rocmforge {

/// Options for a test: a free port, and the log in a folder that is removed.
struct TestServerOptions {
  ServerOptions server = [] {
    ServerOptions options;
    options.port = 0;
    options.version = "test";
    return options;
  }();
  EngineOptions engine = {.max_batch_tokens = 64, .max_sequences = 8, .kv_tokens = 4096};
  std::shared_ptr<const Tokenizer> tokenizer = byte_tokenizer();
  std::int32_t context_length = 256;     ///< of the fake model
  std::optional<PoolingType> pooling{};  ///< of the fake model's file
  EncoderConfig encoder{};               ///< likewise
};

/// An engine with the fake model, which follows `script` if there is one.
std::unique_ptr<Engine> fake_engine(const TestServerOptions& options, FakeModel::Script script);

/// A server with the fake model, whose tokens are bytes and whose answers a script may give.
class FakeServer {
 public:
  explicit FakeServer(TestServerOptions options = {}, FakeModel::Script script = {});

  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  [[nodiscard]] Server& server() { return *server_; }
  [[nodiscard]] std::string log() const;
  /// The value in /metrics for this name and these labels, as in `request_success_total{finished_reason="stop"`.
  [[nodiscard]] double metric(const std::string& name) const;
  /// Waits until no request is running; false when that takes too long.
  [[nodiscard]] bool becomes_idle() const;

 private:
  TemporaryFolder folder_;
  std::unique_ptr<Server> server_;
};

/// A script that gives `text`, byte by byte, after a prompt that ends with `mark`, then the end token. `text` holds no
/// `mark`. `pause` is waited before each token.
FakeModel::Script say(std::string text, std::chrono::milliseconds pause = {}, char mark = '>');

}  // namespace rocmforge
