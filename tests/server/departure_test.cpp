// Clients that leave, and a server that stops, while requests wait for their turn: no answer is built of what never came.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/client.h"
#include "server/plain_tokenizer.h"
#include "server/running_server.h"

namespace rocmforge {
namespace {

using std::chrono::milliseconds;

struct Asked {
  std::string path;
  Json body;
};

const Json messages = {{{"role", "user"}, {"content", "hello"}}};

/// One request to every route that starts an answer; those of `reranking` need a model for it.
std::vector<Asked> requests_to_all_routes(bool reranking) {
  if (reranking) {
    const Json body = {{"query", "which?"}, {"documents", {"one", "two"}}};
    return {{"/v1/rerank", body}, {"/rerank", {{"query", "which?"}, {"texts", {"one", "two"}}}}};
  }
  return {{"/v1/chat/completions", {{"messages", messages}}},
          {"/v1/completions", {{"prompt", {"one", "two"}}}},
          {"/v1/responses", {{"input", "hello"}}},
          {"/v1/messages", {{"messages", messages}, {"max_tokens", 8}}},
          {"/api/chat", {{"messages", messages}, {"stream", false}}},
          {"/api/generate", {{"prompt", "hello"}, {"stream", false}}},
          {"/api/embed", {{"input", {"one", "two"}}}},
          {"/api/embeddings", {{"prompt", "hello"}}},
          {"/v1/embeddings", {{"input", "hello"}}},
          {"/v1/embeddings", {{"input", {"one", "two"}}, {"encoding_format", "base64"}}},
          {"/completion", {{"prompt", "hello"}}},
          {"/completion", {{"prompt", {"one", "two"}}}}};
}

/// A server whose only place is taken by an answer that goes on for a minute.
class BusyServer {
 public:
  explicit BusyServer(bool reranking = false) {
    TestServerOptions options;
    options.engine.max_sequences = 1;
    if (reranking) {
      options.tokenizer =
          plain_tokenizer({{"yes", TokenType::normal}, {"no", TokenType::normal}}, "<s>Q:{query} D:{document}</s>");
    }
    server_ = std::make_unique<FakeServer>(options, say(std::string(2000, 'x'), milliseconds(20)));
    first_ = std::make_unique<Connection>(server_->port());
    first_->send(
        request_text("POST", "/v1/completions", Json{{"prompt", ">"}, {"stream", true}, {"max_tokens", 2000}}.dump()));
    EXPECT_TRUE(first_->read_until("data: "));
  }

  [[nodiscard]] std::uint16_t port() const { return server_->port(); }
  void stop() { server_.reset(); }
  /// Ends the first answer; whether all that was taken is given back.
  [[nodiscard]] bool becomes_idle() {
    first_->close();
    return server_->becomes_idle();
  }

 private:
  std::unique_ptr<FakeServer> server_;
  std::unique_ptr<Connection> first_;
};

constexpr milliseconds delays[] = {milliseconds(0), milliseconds(5), milliseconds(60)};

class Departure : public testing::TestWithParam<bool> {};

TEST_P(Departure, OfAClientLeavesTheServerAlive) {
  BusyServer server(GetParam());
  for (const bool half : {false, true}) {
    for (const Asked& asked : requests_to_all_routes(GetParam())) {
      for (const milliseconds delay : delays) {
        Connection connection(server.port());
        ASSERT_TRUE(connection.send(request_text("POST", asked.path, asked.body.dump())));
        std::this_thread::sleep_for(delay);
        half ? connection.finish_sending() : connection.close();
        ASSERT_EQ(get(server.port(), "/health").status, 200) << asked.path << (half ? ", half closed" : "");
      }
    }
  }
  EXPECT_TRUE(server.becomes_idle());
}

TEST_P(Departure, OfTheServerEndsEveryRequest) {
  for (const milliseconds delay : delays) {
    BusyServer server(GetParam());
    std::vector<std::pair<std::string, std::unique_ptr<Connection>>> waiting;
    for (const Asked& asked : requests_to_all_routes(GetParam())) {
      waiting.emplace_back(asked.path, std::make_unique<Connection>(server.port()));
      ASSERT_TRUE(waiting.back().second->send(request_text("POST", asked.path, asked.body.dump())));
    }
    std::this_thread::sleep_for(delay);
    server.stop();
    for (const auto& [path, connection] : waiting) {
      EXPECT_TRUE(connection->closes() || connection->received().starts_with("HTTP/1.1 ")) << path;
      const bool may_be_partial = path.find("embed") == std::string::npos && path.find("rerank") == std::string::npos;
      EXPECT_TRUE(may_be_partial || !connection->received().starts_with("HTTP/1.1 200")) << path << connection->received();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Answers, Departure, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Reranking, Departure, testing::Values(true));

}  // namespace
}  // namespace rocmforge
