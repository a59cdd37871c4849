// Each allocation during a request, from the connection to the end, fails once. Only that request may fail.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "no_memory/failing_memory.h"
#include "sanitizers.h"
#include "server/client.h"
#include "server/running_server.h"

namespace rocmforge {
namespace {

const std::string answer_text = "seven and eight";

std::string completion(bool streams) {
  const Json body = {
      {"prompt", "5 + 10 is>"}, {"max_tokens", 64}, {"logprobs", 2}, {"stream", streams}, {"unheard_of", {{1, 2}}}};
  return request_text("POST", "/v1/completions", body.dump(), {"Connection: close"});
}

/// The distance between the failing allocations of two runs: neighbouring allocations mostly have the same effect.
constexpr std::int64_t distance = test::address_sanitizer ? 11 : 3;

/// The text of the answer, "" for a failed one.
std::string text_of(const HttpAnswer& answer, bool streams) {
  if (answer.status != 200 || !answer.complete) {
    return "";
  }
  std::string text;
  for (const Json& event : streams ? answer.events() : std::vector<Json>{answer.json()}) {
    if (event.contains("error")) {
      return "";
    }
    for (const Json& choice : event["choices"]) {
      text += choice["text"].get<std::string>();
    }
  }
  return text;
}

class RequestLife : public testing::Test {
 protected:
  explicit RequestLife(const TestServerOptions& options = {}) : server_(options, say(answer_text)) {
    FailingMemory::spare_this_thread();
    for (const bool streams : {false, true}) {  // objects that are made once exist by now
      Connection connection(server_.port());
      connection.send(completion(streams));
      EXPECT_EQ(text_of(connection.read_answer(), streams), answer_text);
    }
  }
  ~RequestLife() override { FailingMemory::stop(); }

  /// Sends two requests at the same time, of which at most one may fail. Returns their number of allocations.
  std::int64_t ask_two(std::int64_t failing, bool streams) {
    FailingMemory::fail(failing);
    int failed = 0;
    {
      Connection first(server_.port());
      Connection second(server_.port());
      first.send(completion(streams));
      second.send(completion(streams));
      for (Connection* connection : {&first, &second}) {
        const HttpAnswer answer = connection->read_answer();
        const bool is_right = text_of(answer, streams) == answer_text;
        failed += is_right ? 0 : 1;
        EXPECT_TRUE(is_right || answer.status == 0 || answer.status >= 500 || answer.status == 200)
            << answer.status << ": " << answer.body;
        EXPECT_TRUE(connection->closes()) << "a client waits for ever";
      }
    }
    EXPECT_LE(failed, 1);
    return FailingMemory::stop();
  }

  void expect_that_nothing_is_left() {
    EXPECT_TRUE(server_.becomes_idle());
    // The request of a client that has left may start only now. It must end too, and free its blocks.
    for (int i = 0; i < 500 && server_.metric("kv_cache_usage_perc") > 0.0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(server_.metric("kv_cache_usage_perc"), 0.0);
    EXPECT_EQ(get(server_.port(), "/health").status, 200);
  }

  FakeServer server_;
};

TEST_F(RequestLife, EachAllocationMayFail) {
  for (const bool streams : {false, true}) {
    std::int64_t all = ask_two(0, streams);
    ASSERT_GT(all, 500) << "the server's allocations are counted";
    for (std::int64_t failing = streams ? 2 : 1; failing <= all; failing += distance) {
      SCOPED_TRACE("number " + std::to_string(failing) + (streams ? " of a stream" : ""));
      ask_two(failing, streams);
      if (failing / distance % 64 == 0) {
        expect_that_nothing_is_left();
      }
      if (HasFailure()) {
        break;
      }
    }
    expect_that_nothing_is_left();
  }
}

/// The answer is known from the first requests, and is drafted.
class DraftedRequestLife : public RequestLife {
 protected:
  DraftedRequestLife() : RequestLife(options()) {}
  static TestServerOptions options() {
    TestServerOptions options;
    options.engine.drafts = {.most = 4, .ngram = 2, .adapts = false};
    return options;
  }
};

TEST_F(DraftedRequestLife, EachAllocationMayFail) {
  const std::int64_t all = ask_two(0, true);
  for (std::int64_t failing = 1; failing <= all; failing += 2 * distance) {
    SCOPED_TRACE("number " + std::to_string(failing));
    ask_two(failing, true);
    if (HasFailure()) {
      break;
    }
  }
  expect_that_nothing_is_left();
  EXPECT_GT(server_.metric("spec_decode_num_accepted_tokens_total"), 1000.0);
}

TEST_F(RequestLife, AllAllocationsFailForAWhile) {
  const std::int64_t all = ask_two(0, false);
  for (std::int64_t failing = 1; failing <= all; failing += 7) {
    SCOPED_TRACE("from number " + std::to_string(failing));
    FailingMemory::fail(failing, 40);
    {
      Connection connection(server_.port());
      connection.send(completion(false));
      static_cast<void>(connection.read_answer(false, std::chrono::seconds(20)));
      EXPECT_TRUE(connection.closes()) << "a client waits for ever";
    }
    FailingMemory::stop();
    Connection later(server_.port());
    later.send(completion(false));
    ASSERT_EQ(text_of(later.read_answer(), false), answer_text);
  }
  expect_that_nothing_is_left();
}

TEST_F(RequestLife, EachAllocationMayFailWhenTheClientLeaves) {
  const std::int64_t all = ask_two(0, true);
  for (std::int64_t failing = 1; failing <= all; failing += distance) {
    SCOPED_TRACE("number " + std::to_string(failing));
    FailingMemory::fail(failing);
    {
      Connection connection(server_.port());
      connection.send(completion(true));
      if (failing % 2 == 0) {
        static_cast<void>(connection.read_until("data:", std::chrono::milliseconds(200)));
      }
    }
    FailingMemory::stop();
    if (failing / distance % 20 == 0) {
      expect_that_nothing_is_left();
    }
  }
  expect_that_nothing_is_left();
}

}  // namespace
}  // namespace rocmforge
