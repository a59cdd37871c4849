#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "server/client.h"
#include "server/running_server.h"

namespace rocmforge {
namespace {

using testing::HasSubstr;

TEST(StepTimeout, AStepThatNeverEndsEndsEveryRequest) {
  std::promise<void> release;
  std::promise<std::string> told;
  {
    TestServerOptions options;
    options.engine.step_seconds = 0.2;
    options.server.on_abandoned = [&](const std::string& line) { told.set_value(line); };
    FakeServer server(options, [released = release.get_future().share()](const FakeModel::Tokens&) {
      released.wait();
      return 'x';
    });
    const Json request = {{"prompt", "a>"}, {"max_tokens", 5}};
    auto other = std::async(std::launch::async, [&] { return post(server.port(), "/v1/completions", request); });
    const HttpAnswer answer = post(server.port(), "/v1/completions", request);
    EXPECT_GE(answer.status, 500) << answer.body;
    EXPECT_THAT(answer.body, HasSubstr("the engine has failed: a step has not ended in 0.2 s; launched last: "));
    EXPECT_GE(other.get().status, 500);
    EXPECT_THAT(told.get_future().get(), HasSubstr("a step has not ended in 0.2 s"));
    EXPECT_GE(get(server.port(), "/health").status, 500);
    release.set_value();  // so that the test itself ends
  }
}

}  // namespace
}  // namespace rocmforge
