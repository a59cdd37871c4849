#include "base/recent_map.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace rocmforge {
namespace {

TEST(RecentMap, DropsWhatWasUsedLongestAgo) {
  RecentMap<int, std::unique_ptr<std::string>> map(2);
  EXPECT_EQ(map.find(1), nullptr);
  const auto add = [&](int key) {
    if (map.full()) {
      map.drop_oldest();
    }
    map.add(key, std::make_unique<std::string>(std::to_string(key)));
  };
  add(1);
  add(2);
  EXPECT_TRUE(map.full());
  const auto* first = map.find(1);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(*map.oldest(), "2");
  add(3);
  EXPECT_EQ(map.find(2), nullptr);
  EXPECT_EQ(map.find(1), first) << "addresses stay";
  EXPECT_EQ(map.size(), 2u);
  EXPECT_THROW(map.add(4, nullptr), LogicError) << "it is full";
  map.clear();
  EXPECT_TRUE(map.empty());
}

}  // namespace
}  // namespace rocmforge
