#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "base/json.h"
#include "no_memory/failing_memory.h"

namespace rocmforge {
namespace {

using Json = nlohmann::ordered_json;

/// Runs `body` in a thread whose allocations all fail.
template <class Body>
void without_memory(Body&& body) {
  std::thread thread([&] {
    FailingMemory::fail(1, std::numeric_limits<std::int32_t>::max());
    body();
    FailingMemory::stop();
  });
  thread.join();
}

TEST(JsonReserve, IsEnoughForAQuarterOfAMillionValues) {
  Json value(125'000, Json::array({1}));
  without_memory([&] { value = nullptr; });
  EXPECT_TRUE(value.is_null());
}

TEST(JsonReserve, ValuesAreFreedWhereThereIsNoMemory) {
  for (int round = 0; round < 500; ++round) {  // together more than the reserve holds
    Json value = {{"id", "a text that is longer than the room inside a string"}, {"list", Json::array()}};
    for (int i = 0; i < 500; ++i) {
      value["list"].push_back({{"number", i}, {"inner", {1, 2, 3}}});
    }
    Json copy = value;
    without_memory([&] {
      const Json freed = std::move(value);
      copy = nullptr;
    });
    EXPECT_TRUE(copy.is_null());
  }
}

}  // namespace
}  // namespace rocmforge
