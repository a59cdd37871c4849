#include "engine/stop_strings.h"

#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "base/error.h"

namespace rocmforge {
namespace {

TEST(StopStrings, HoldsBackOnlyWhatMayBecomeAStop) {
  StopStrings stop({"STOP"});
  EXPECT_EQ(stop.add("hello S"), "hello ");
  EXPECT_EQ(stop.add("T"), "");
  EXPECT_EQ(stop.add("ART S"), "START ");
  EXPECT_FALSE(stop.stopped());
  EXPECT_EQ(stop.add("TO"), "");
  EXPECT_EQ(stop.add("P and more"), "");
  EXPECT_TRUE(stop.stopped());
  EXPECT_EQ(stop.add("still more"), "");
  EXPECT_EQ(stop.finish(), "");
}

TEST(StopStrings, GivesHeldTextBackAtTheEnd) {
  StopStrings stop({"\n\nUser:"});
  EXPECT_EQ(stop.add("bye\n\nUs"), "bye");
  EXPECT_EQ(stop.finish(), "\n\nUs");
  EXPECT_EQ(stop.finish(), "");
}

TEST(StopStrings, OverlapsWithItself) {
  StopStrings stop({"aab"});
  EXPECT_EQ(stop.add("aaa"), "a");
  EXPECT_EQ(stop.add("b"), "");
  EXPECT_TRUE(stop.stopped());
}

TEST(StopStrings, TheFirstToCompleteEndsTheTextAndOfThoseTheLongest) {
  StopStrings first({"abcd", "bc"});
  EXPECT_EQ(first.add("xabcd"), "xa");
  StopStrings longest({"b", "aab"});
  EXPECT_EQ(longest.add("xaab"), "x");
}

TEST(StopStrings, NoneLetsEverythingThrough) {
  StopStrings stop({});
  EXPECT_EQ(stop.add("any text"), "any text");
  EXPECT_EQ(stop.finish(), "");
}

TEST(StopStrings, AnEmptyOneIsAMistake) { EXPECT_THROW(StopStrings({"x", ""}), LogicError); }

TEST(StopStrings, AgreesWithASearchOfTheWholeTextHoweverItIsCut) {
  std::mt19937 random(5);
  const auto word = [&](std::size_t length) {
    std::string text(length, 'a');
    for (char& letter : text) {
      letter = static_cast<char>('a' + random() % 2);
    }
    return text;
  };
  int found = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::string> stops;
    for (std::size_t i = 0; i <= random() % 3; ++i) {
      stops.push_back(word(1 + random() % 7));
    }
    const std::string text = word(random() % 40);
    // The earliest end of any stop string; the longest one that ends there.
    std::string expected = text;
    bool stopped = false;
    for (std::size_t end = 1; end <= text.size() && !stopped; ++end) {
      for (const std::string& each : stops) {
        if (text.substr(0, end).ends_with(each)) {
          expected = text.substr(0, stopped ? std::min(expected.size(), end - each.size()) : end - each.size());
          stopped = true;
        }
      }
    }
    StopStrings matcher(stops);
    std::string shown;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = 1 + random() % 5;
      shown += matcher.add(text.substr(at, length));
      ASSERT_TRUE(expected.starts_with(shown)) << "text of a stop string was shown";
      at += length;
    }
    shown += matcher.finish();
    ASSERT_EQ(shown, expected);
    ASSERT_EQ(matcher.stopped(), stopped);
    found += stopped ? 1 : 0;
  }
  EXPECT_GT(found, 5'000);
  EXPECT_LT(found, 19'000);
}

TEST(StopStrings, LongRepetitiveStopsAreLinear) {
  StopStrings stop({std::string(200'000, 'a') + "b"});
  std::string shown;
  for (int i = 0; i < 4'000; ++i) {
    shown += stop.add(std::string(100, 'a'));
  }
  EXPECT_EQ(shown.size(), 200'000u);
}

}  // namespace
}  // namespace rocmforge
