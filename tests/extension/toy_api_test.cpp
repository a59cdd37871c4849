// A vendor's API that is added from outside, in the two files and the row of docs/add-an-api.md.
#include "extension/toy_api.h"

#include <gtest/gtest.h>

#include "server/local_server.h"
#include "server/other_api.h"
#include "server/request_file.h"

namespace rocmforge {
namespace {

class ToyApi : public testing::Test {
 protected:
  HttpAnswer ask(const Json& body) { return post(server_, "/toy/ask", body); }

 private:
  LocalServer server_{options_that_show_all(), say("<think>so so</think>well then", {}, '|'), toy_routes()};
};

TEST_F(ToyApi, AnswersInItsOwnForm) {
  EXPECT_EQ(ask({{"question", "q"}}).json(), Json({{"reply", "well then"}, {"thoughts", "so so"}, {"end", "stop"}}));
  EXPECT_EQ(ask({{"question", "q"}, {"words", 10}}).json()["end"], "length");
}

TEST_F(ToyApi, StreamsInItsOwnForm) {
  std::string reply, thoughts;
  const std::vector<Json> events = stream_events(ask({{"question", "q"}, {"stream", true}}).body);
  for (const Json& event : events) {
    reply += event.value("reply", "");
    thoughts += event.value("thoughts", "");
  }
  EXPECT_EQ(reply, "well then");
  EXPECT_EQ(thoughts, "so so");
  EXPECT_EQ(events.back(), Json({{"end", "stop"}}));
}

TEST_F(ToyApi, RefusesByItsOwnNames) {
  EXPECT_EQ(ask({{"words", 3}}).json(), Json({{"oops", "question is missing"}}));
  EXPECT_EQ(ask({{"question", "q"}, {"words", 0}}).status, 400);
  EXPECT_TRUE(ask({{"question", "q"}, {"words", 0}}).json()["oops"].get<std::string>().starts_with("words is 0"));
}

TEST_F(ToyApi, HasTheFieldsThatAllApisShare) {
  EXPECT_EQ(ask({{"question", "q"}, {"stop", "then"}}).json()["reply"], "well ");
  EXPECT_EQ(ask({{"question", "q"}, {"colour", "red"}}).headers.at("x-ignored-fields"), "colour");
}

}  // namespace
}  // namespace rocmforge
