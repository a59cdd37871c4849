#include "schedule/pages/sequence_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"

namespace rocmforge::sequence_cache_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Tokens = std::vector<std::int32_t>;

constexpr std::int32_t block_tokens = 4;

Tokens counting(std::int32_t first, std::int32_t count) {
  Tokens tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// A sequence and its tokens, computed in chunks as a scheduler does.
struct Text {
  Text(SequenceCache& owner, Tokens prompt) : memory(owner), tokens(std::move(prompt)), cached(owner.make_sequence()) {}

  [[nodiscard]] std::int32_t length() const { return static_cast<std::int32_t>(tokens.size()); }

  /// Computes all tokens that are not in the cache; false when there is no room for them.
  bool compute() {
    if (!memory.reserve(cached, length())) {
      return false;
    }
    while (cached.computed_tokens < length()) {
      const std::int32_t count = memory.extend(cached, length() - cached.computed_tokens);
      const SequenceState::Step state = memory.next_state(cached, count, length());
      memory.copies_made();
      memory.commit(cached, count, state, {tokens});
    }
    return true;
  }
  /// Computes further tokens one at a time.
  void go_on(const Tokens& more) {
    for (const std::int32_t token : more) {
      tokens.push_back(token);
      ASSERT_TRUE(compute());
    }
  }
  void rewind(std::int32_t length) {
    memory.truncate(cached, length);
    tokens.resize(static_cast<std::size_t>(length));
  }

  SequenceCache& memory;
  Tokens tokens;
  CachedSequence cached;
};

TEST(SequenceCache, ASequenceReturnsWhatItTook) {
  SequenceCache memory({.blocks = 8, .block_tokens = block_tokens, .slots = 5, .windows = {{.window = 6, .blocks = 6}}});
  {
    Text text(memory, counting(0, 13));
    ASSERT_TRUE(text.compute());
    EXPECT_EQ(memory.blocks().num_free(), 4);
    EXPECT_EQ(memory.slots()->num_free(), 3);
    EXPECT_EQ(memory.windows()[0].allocator->num_free(), 6 - 3) << "the block behind its window was given up";
    memory.release(text.cached);
    EXPECT_EQ(text.cached.computed_tokens, 0);
  }
  EXPECT_EQ(memory.blocks().num_free(), 8);
  EXPECT_EQ(memory.slots()->num_free(), 5);
  EXPECT_EQ(memory.windows()[0].allocator->num_free(), 6);
}

TEST(SequenceCache, ItsVersionChangesOnlyWhenRoomMayHaveComeFree) {
  SequenceCache memory({.blocks = 8, .block_tokens = block_tokens, .prefixes = true});
  Text first(memory, counting(0, 15));
  Text second(memory, counting(100, 14));
  ASSERT_TRUE(first.compute() && second.compute());
  const Text third(memory, counting(200, 9));
  EXPECT_FALSE(memory.has_room_for(third.cached, third.length(), 0));
  const std::uint64_t version = memory.version();
  first.go_on({7});
  second.go_on({7});
  EXPECT_EQ(memory.version(), version) << "decodes take blocks";
  memory.release(first.cached, {first.tokens});
  EXPECT_NE(memory.version(), version);
  EXPECT_TRUE(memory.has_room_for(third.cached, third.length(), 1));
  EXPECT_FALSE(memory.has_room_for(third.cached, third.length(), 2));
}

TEST(SequenceCache, GivingUpBlocksBehindAWindowChangesTheVersion) {
  SequenceCache memory({.blocks = 16, .block_tokens = block_tokens, .windows = {{.window = 4, .blocks = 8}}});
  Text text(memory, counting(0, 8));
  ASSERT_TRUE(text.compute());
  int changes = 0;
  for (int i = 0; i < 12; ++i) {
    const std::uint64_t before = memory.version();
    text.go_on({i});
    changes += memory.version() != before ? 1 : 0;
  }
  EXPECT_EQ(changes, 12 / block_tokens) << "once a block";
}

TEST(SequenceCache, ASequenceRolledBackFreesItsLastBlocksAndGoesOn) {
  SequenceCache memory({.blocks = 8, .block_tokens = block_tokens});
  Text text(memory, counting(0, 18));
  ASSERT_TRUE(text.compute());
  const std::vector<BlockId> before(text.cached.pages.blocks().begin(), text.cached.pages.blocks().end());
  EXPECT_EQ(memory.blocks().num_free(), 3);
  text.rewind(9);
  EXPECT_EQ(text.cached.computed_tokens, 9);
  EXPECT_EQ(memory.blocks().num_free(), 5) << "the third block is still in use";
  text.go_on(counting(50, 9));
  EXPECT_TRUE(std::ranges::equal(std::span(before).first(3), text.cached.pages.blocks().first(3)));
  EXPECT_EQ(memory.blocks().num_free(), 3);
  text.rewind(0);
  EXPECT_EQ(memory.blocks().num_free(), 8);
}

TEST(SequenceCache, BlocksThatOthersHoldAreCopiedBeforeARolledBackSequenceWritesToThem) {
  SequenceCache memory({.blocks = 12, .block_tokens = block_tokens});
  Text leader(memory, counting(0, 10));
  leader.cached.awaited_tokens = 10;
  ASSERT_TRUE(leader.compute());
  Text follower(memory, leader.tokens);
  ASSERT_TRUE(memory.adopt(follower.cached, leader.cached, 10));
  EXPECT_EQ(follower.cached.computed_tokens, 9);
  leader.rewind(6);
  EXPECT_EQ(follower.cached.pages.blocks().size(), 3u) << "what others hold is not freed";
  const BlockId shared = follower.cached.pages.blocks()[1];
  EXPECT_EQ(leader.cached.pages.blocks()[1], shared);
  leader.tokens.push_back(99);
  ASSERT_TRUE(memory.reserve(leader.cached, leader.length()));
  ASSERT_EQ(memory.copies().size(), 1u);
  EXPECT_EQ(memory.copies()[0], (BlockCopy{shared, leader.cached.pages.blocks()[1], 0}));
  EXPECT_EQ(follower.cached.pages.blocks()[1], shared);
}

TEST(SequenceCache, WhatThePrefixCacheKnowsOfARolledBackSequenceStaysRight) {
  SequenceCache memory({.blocks = 12, .block_tokens = block_tokens, .prefixes = true});
  Text text(memory, counting(0, 16));
  ASSERT_TRUE(text.compute());
  text.rewind(6);
  text.go_on(counting(50, 6));  // the second block has other tokens now
  memory.release(text.cached, {text.tokens});
  const auto known = [&](const Tokens& tokens) {
    Text reader(memory, tokens);
    memory.adopt(reader.cached, {tokens});
    return reader.cached.computed_tokens;
  };
  EXPECT_EQ(known(counting(0, 17)), 16) << "what was computed first";
  text.tokens.push_back(0);
  EXPECT_EQ(known(text.tokens), 12) << "what was computed after it";
}

TEST(SequenceCache, AWindowRollsBackAsFarAsItIsHeld) {
  SequenceCache memory({.blocks = 16, .block_tokens = block_tokens, .windows = {{.window = 6, .blocks = 10}}});
  Text text(memory, counting(0, 12));
  ASSERT_TRUE(text.compute());
  text.go_on(counting(50, 12));
  ASSERT_EQ(text.cached.windows[0].pages.num_given_up(), 4u) << "blocks with positions below 16";
  EXPECT_THAT(memory.truncate_refusal(text.cached, 22), IsEmpty());
  EXPECT_THAT(memory.truncate_refusal(text.cached, 21), IsEmpty()) << "it sees positions from 16 on";
  EXPECT_EQ(memory.truncate_refusal(text.cached, 20), "positions that position 20 sees through its window were given up");
  EXPECT_THROW(memory.truncate(text.cached, 20), LogicError);
  EXPECT_EQ(text.cached.computed_tokens, 24) << "what is refused changes nothing";
  text.rewind(21);
  text.go_on(counting(80, 10));
  text.rewind(0);
  EXPECT_EQ(memory.windows()[0].allocator->num_free(), 10);
  EXPECT_TRUE(text.tokens.empty());
}

TEST(SequenceCache, ARecurrentStateRollsBackOnlyToItsStart) {
  SequenceCache memory({.blocks = 16, .block_tokens = block_tokens, .prefixes = true, .slots = 7});
  Text text(memory, counting(0, 10));
  ASSERT_TRUE(text.compute());
  text.go_on({50, 51});
  EXPECT_EQ(memory.truncate_refusal(text.cached, 11), "a recurrent state can't be rolled back from position 12 to 11");
  EXPECT_THROW(memory.truncate(text.cached, 8), LogicError) << "not even to where a state was kept for others";
  EXPECT_THAT(memory.truncate_refusal(text.cached, 12), IsEmpty());
  text.rewind(0);
  text.tokens = counting(0, 10);
  ASSERT_TRUE(memory.reserve(text.cached, text.length()));
  EXPECT_EQ(memory.next_state(text.cached, 10, 10).from, -1) << "it starts anew";
}

TEST(SequenceCache, NoPositionsAreRolledForward) {
  SequenceCache memory({.blocks = 4, .block_tokens = block_tokens});
  Text text(memory, counting(0, 5));
  ASSERT_TRUE(text.compute());
  EXPECT_THAT(memory.truncate_refusal(text.cached, 6), HasSubstr("6 of 5 computed positions"));
  EXPECT_THAT(memory.truncate_refusal(text.cached, -1), HasSubstr("-1 of 5"));
}

}  // namespace
}  // namespace rocmforge::sequence_cache_test
