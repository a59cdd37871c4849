// Many clients at once, some of which disconnect. Mainly for the thread sanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "server/client.h"
#include "server/running_server.h"

namespace rocmforge {
namespace {

using std::chrono::milliseconds;

TEST(Load, ManyStreamsSomeOfWhichAreLeft) {
  constexpr int clients = 256;
  constexpr std::size_t length = 40;
  TestServerOptions options;
  options.engine.max_sequences = 64;
  options.engine.max_batch_tokens = 128;
  options.server.max_waiting = clients;
  FakeServer server(options, say(std::string(length, 'a')));
  std::atomic<int> wrong = 0;
  std::atomic<int> dropped = 0;
  std::vector<std::jthread> threads;
  for (int client = 0; client < clients; ++client) {
    threads.emplace_back([&, client] {
      Connection connection(server.port());
      const Json request = {{"prompt", std::to_string(client) + ">"}, {"max_tokens", length}, {"stream", client % 3 != 0}};
      connection.send(request_text("POST", "/v1/completions", request.dump()));
      if (client % 5 == 0) {  // leaves, at different places
        connection.read_until("\"text\":\"a\"", milliseconds(client % 10 == 0 ? 5 : 1000));
        connection.close();
        ++dropped;
        return;
      }
      const HttpAnswer answer = connection.read_answer(false, std::chrono::seconds(60));
      std::size_t text = 0;
      if (client % 3 != 0) {
        for (const Json& event : answer.events()) {
          text += event["choices"][0]["text"].get<std::string>().size();
        }
      } else {
        text = answer.json()["choices"][0]["text"].get<std::string>().size();
      }
      wrong += answer.status == 200 && answer.complete && text == length ? 0 : 1;
    });
  }
  std::jthread watcher([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      EXPECT_EQ(get(server.port(), "/slots").status, 200);
      EXPECT_EQ(get(server.port(), "/metrics").status, 200);
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  threads.clear();
  watcher.request_stop();
  watcher.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(dropped, 0);
  EXPECT_TRUE(server.becomes_idle());
  EXPECT_EQ(server.metric("kv_cache_usage_perc"), 0.0) << "all blocks are free";
}

TEST(Load, ShuttingDownUnderLoadEndsEverything) {
  auto server = std::make_unique<FakeServer>(TestServerOptions{}, say(std::string(200, 'a'), milliseconds(1)));
  std::vector<std::jthread> threads;
  constexpr int clients = 24;
  std::latch sent(clients);
  std::atomic<int> ended = 0;
  for (int client = 0; client < clients; ++client) {
    threads.emplace_back([&, client, port = server->port()] {
      Connection connection(port);
      const Json request = {{"prompt", "x>"}, {"max_tokens", 200}, {"stream", client % 2 == 0}};
      connection.send(request_text("POST", "/v1/completions", request.dump()));
      sent.count_down();
      connection.read_answer();
      ++ended;
    });
  }
  sent.wait();
  std::this_thread::sleep_for(milliseconds(50));  // some answers are running, some requests wait
  server.reset();
  threads.clear();
  EXPECT_EQ(ended, clients);
}

}  // namespace
}  // namespace rocmforge
