#include "schedule/pages/prefix_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <random>

#include "schedule/pages/page_table.h"

namespace rocmforge {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens counting(std::int32_t first, std::int32_t count) {
  Tokens tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// Computes `tokens` into new blocks, inserts and releases them; returns the blocks.
std::vector<BlockId> fill(BlockAllocator& allocator, PrefixCache& cache, const Tokens& tokens) {
  PageTable table(allocator, 4);
  EXPECT_TRUE(table.reserve(static_cast<std::int32_t>(tokens.size())));
  cache.insert(tokens, table.blocks());
  return {table.blocks().begin(), table.blocks().end()};
}

TEST(PrefixCache, APrefixEndsWhereAStateWasKept) {
  BlockAllocator allocator(16);
  BlockAllocator slots(4);
  PrefixCache cache(allocator, 4, PrefixCache::hash_block, &slots);
  PageTable table(allocator, 4);
  ASSERT_TRUE(table.reserve(12));
  const Tokens tokens = counting(0, 12);
  PrefixCache::Progress progress;
  cache.insert(std::span(tokens).first(8), table.blocks(), progress);
  const SlotId slot = slots.allocate();
  cache.keep_state(progress, slot);
  slots.release(slot);
  cache.insert(tokens, table.blocks(), progress);
  EXPECT_EQ(cache.num_blocks(), 3);
  const std::vector<BlockId> match = cache.match(counting(0, 30));
  EXPECT_EQ(match, std::vector<BlockId>(table.blocks().begin(), table.blocks().begin() + 2));
  EXPECT_EQ(cache.state_behind(match.back()), slot);
  EXPECT_EQ(cache.state_behind(match.front()), -1);
  EXPECT_TRUE(cache.match(counting(0, 8)).empty()) << "behind its first block there is none";
  EXPECT_EQ(cache.num_evictable_states(), 1);
  cache.evict_states(4);
  EXPECT_EQ(slots.num_free(), 4);
  EXPECT_TRUE(cache.match(counting(0, 30)).empty());
  EXPECT_EQ(cache.num_blocks(), 3) << "the blocks stay";
}

TEST(PrefixCache, FindsTheLongestRunOfFullBlocks) {
  BlockAllocator allocator(16);
  PrefixCache cache(allocator, 4);
  const auto blocks = fill(allocator, cache, counting(0, 11));
  EXPECT_EQ(cache.num_blocks(), 2) << "the third block is not full";
  EXPECT_EQ(allocator.num_free(), 14);
  Tokens longer = counting(0, 30);
  EXPECT_EQ(cache.match(longer), (std::vector<BlockId>{blocks[0], blocks[1]}));
  longer[5] = 99;
  EXPECT_EQ(cache.match(longer), std::vector<BlockId>{blocks[0]});
  longer[0] = 99;
  EXPECT_TRUE(cache.match(longer).empty());
}

TEST(PrefixCache, FindsOnlyBlocksOfTheSameSalt) {
  const auto all_collide = [](std::uint64_t parent, std::span<const std::int32_t>) { return parent + 1; };
  for (const PrefixCache::BlockHash hash :
       {PrefixCache::BlockHash(PrefixCache::hash_block), PrefixCache::BlockHash(all_collide)}) {
    BlockAllocator allocator(32);
    PrefixCache cache(allocator, 4, hash);
    const Tokens tokens = counting(0, 8), longer = counting(0, 9);
    PrefixCache::Progress progress;
    PageTable table(allocator, 4);
    ASSERT_TRUE(table.reserve(8));
    cache.insert(tokens, table.blocks(), progress, {}, "one");
    EXPECT_EQ(cache.num_blocks(), 2);
    EXPECT_EQ(cache.match(longer, "one").size(), 2u);
    EXPECT_TRUE(cache.match(longer, "two").empty());
    EXPECT_TRUE(cache.match(longer).empty());
  }
  BlockAllocator allocator(32);
  PrefixCache cache(allocator, 4);
  const auto blocks = fill(allocator, cache, counting(0, 8));
  PageTable own(allocator, 4);
  ASSERT_TRUE(own.reserve(8));
  PrefixCache::Progress progress;
  cache.insert(counting(0, 8), own.blocks(), progress, {}, "one");
  EXPECT_EQ(cache.num_blocks(), 4) << "the same tokens, once for each salt";
  EXPECT_EQ(cache.match(counting(0, 9)), blocks);
  EXPECT_EQ(cache.match(counting(0, 9), "one").front(), own.blocks().front());
}

TEST(PrefixCache, LeavesTheLastTokenToBeComputed) {
  BlockAllocator allocator(8);
  PrefixCache cache(allocator, 4);
  fill(allocator, cache, counting(0, 8));
  EXPECT_EQ(cache.match(counting(0, 8)).size(), 1u);
  EXPECT_EQ(cache.match(counting(0, 9)).size(), 2u);
  EXPECT_TRUE(cache.match(counting(0, 4)).empty());
  EXPECT_TRUE(cache.match({}).empty());
}

TEST(PrefixCache, SameTokensAfterOtherTokensAreAnotherBlock) {
  BlockAllocator allocator(8);
  PrefixCache cache(allocator, 4);
  fill(allocator, cache, {1, 1, 1, 1, 5, 6, 7, 8});
  EXPECT_TRUE(cache.match(Tokens{5, 6, 7, 8, 0}).empty());
  EXPECT_EQ(cache.match(Tokens{1, 1, 1, 1, 5, 6, 7, 9, 0}).size(), 1u);
}

TEST(PrefixCache, CollidingKeysNeverGiveAWrongMatch) {
  BlockAllocator allocator(8);
  PrefixCache cache(allocator, 4, [](std::uint64_t parent, std::span<const std::int32_t>) { return parent + 1; });
  const auto blocks = fill(allocator, cache, counting(0, 8));
  fill(allocator, cache, counting(100, 8));  // same keys, other tokens
  EXPECT_EQ(cache.num_blocks(), 2);
  EXPECT_EQ(cache.match(counting(0, 9)), blocks);
  EXPECT_TRUE(cache.match(counting(100, 9)).empty());
  Tokens mixed = counting(0, 4);
  mixed.insert(mixed.end(), {104, 105, 106, 107, 0});
  EXPECT_EQ(cache.match(mixed).size(), 1u);
}

TEST(PrefixCache, EvictsTheLeastRecentlyUsedEndOfAChain) {
  BlockAllocator allocator(6);
  PrefixCache cache(allocator, 4);
  fill(allocator, cache, counting(0, 12));
  fill(allocator, cache, counting(100, 12));
  EXPECT_EQ(allocator.num_free(), 0);
  EXPECT_EQ(cache.match(counting(0, 13)).size(), 3u);  // now 100.. is the older chain
  cache.evict(1);
  EXPECT_EQ(allocator.num_free(), 1);
  EXPECT_EQ(cache.match(counting(0, 13)).size(), 3u);
  EXPECT_EQ(cache.match(counting(100, 13)).size(), 2u) << "the end goes first, the start stays useful";
  EXPECT_EQ(cache.match(counting(0, 13)).size(), 3u);
  cache.evict(4);
  EXPECT_EQ(allocator.num_free(), 4);
  EXPECT_TRUE(cache.match(counting(100, 13)).empty());
  EXPECT_EQ(cache.match(counting(0, 13)).size(), 2u);
  cache.evict(100);
  EXPECT_EQ(allocator.num_free(), 6);
  EXPECT_EQ(cache.num_blocks(), 0);
}

TEST(PrefixCache, KeepsBlocksThatSomebodyHolds) {
  BlockAllocator allocator(6);
  PrefixCache cache(allocator, 4);
  fill(allocator, cache, counting(0, 12));
  PageTable user(allocator, 4);
  user.adopt(cache.match(counting(0, 9)));
  EXPECT_EQ(cache.num_evictable(), 1);
  cache.evict(6);
  EXPECT_EQ(allocator.num_free(), 4);
  EXPECT_EQ(cache.num_blocks(), 2);
  user.clear();
  EXPECT_EQ(cache.num_evictable(), 2);
  cache.evict(6);
  EXPECT_EQ(allocator.num_free(), 6);
}

TEST(PrefixCache, BlockBeforeAHeldOneIsGivenLastAndWhatFollowsIsForgotten) {
  BlockAllocator allocator(6);
  PrefixCache cache(allocator, 4);
  fill(allocator, cache, counting(0, 4));
  fill(allocator, cache, counting(50, 4));
  // A second sequence has computed the same prefix in blocks of its own: only its second block enters the cache.
  PageTable table(allocator, 4);
  ASSERT_TRUE(table.reserve(8));
  cache.insert(counting(0, 8), table.blocks());
  EXPECT_EQ(cache.num_blocks(), 3);
  EXPECT_EQ(cache.num_evictable(), 2) << "nobody else holds them";
  cache.evict(3);
  EXPECT_EQ(cache.match(counting(0, 9)).size(), 2u) << "the other one was to be had";
  cache.evict(4);
  EXPECT_EQ(allocator.num_free(), 4);
  EXPECT_EQ(cache.num_blocks(), 0) << "what follows can't be found without it";
  EXPECT_EQ(allocator.references(table.blocks()[1]), 1);
  table.clear();
  EXPECT_EQ(allocator.num_free(), 6);
}

TEST(PrefixCache, GivesItsBlocksBackAtTheEnd) {
  BlockAllocator allocator(4);
  {
    PrefixCache cache(allocator, 4);
    fill(allocator, cache, counting(0, 16));
    EXPECT_EQ(allocator.num_free(), 0);
  }
  EXPECT_EQ(allocator.num_free(), 4);
}

// A model of the cache's storage: what each block was last written with. Detects a match with a block of other content, and
// an eviction of a block in use.
TEST(PrefixCache, RandomUseNeverReturnsABlockWithOtherContent) {
  constexpr std::int32_t num_blocks = 48;
  constexpr std::int32_t block_tokens = 4;
  BlockAllocator allocator(num_blocks);
  auto cache = std::make_unique<PrefixCache>(allocator, block_tokens);
  std::map<BlockId, Tokens> content;  // all tokens up to the block's end
  struct User {
    Tokens tokens;
    PageTable pages;
  };
  std::vector<User> users;
  int matched = 0;
  std::mt19937 random(3);
  for (int step = 0; step < 100'000; ++step) {
    if (users.size() > 4 || (!users.empty() && random() % 2 == 0)) {
      users.erase(users.begin() + static_cast<std::ptrdiff_t>(random() % users.size()));
      continue;
    }
    Tokens tokens(1 + random() % 40);
    for (std::int32_t& token : tokens) {
      token = static_cast<std::int32_t>(random() % 8 == 0);  // long common prefixes are likely
    }
    PageTable pages(allocator, block_tokens);
    const std::vector<BlockId> hits = cache->match(tokens);
    ASSERT_LT(hits.size() * block_tokens, tokens.size());
    pages.adopt(hits);
    matched += static_cast<int>(hits.size());
    const std::int32_t evictable = cache->num_evictable();
    const std::int32_t needed = pages.blocks_needed(static_cast<std::int32_t>(tokens.size()));
    const std::int32_t free_before = allocator.num_free();
    cache->evict(needed);
    ASSERT_EQ(allocator.num_free(), std::max(free_before, std::min(needed, free_before + evictable)));
    if (!pages.reserve(static_cast<std::int32_t>(tokens.size()))) {
      continue;
    }
    for (std::size_t i = 0; i < pages.blocks().size(); ++i) {
      const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(std::min((i + 1) * block_tokens, tokens.size()));
      const Tokens expected(tokens.begin(), end);
      const BlockId block = pages.blocks()[i];
      if (i < hits.size()) {
        ASSERT_EQ(content[block], expected);
      } else {
        ASSERT_EQ(allocator.references(block), 1) << "a fresh block must have one owner";
        content[block] = expected;
      }
    }
    cache->insert(tokens, pages.blocks());
    users.push_back({std::move(tokens), std::move(pages)});
    for (const User& user : users) {
      for (const BlockId block : user.pages.blocks()) {
        ASSERT_GE(allocator.references(block), 1);
      }
    }
  }
  EXPECT_GT(matched, 10'000);
  users.clear();
  EXPECT_EQ(cache->num_evictable(), cache->num_blocks());
  EXPECT_EQ(allocator.num_free() + cache->num_blocks(), num_blocks);
  cache.reset();
  EXPECT_EQ(allocator.num_free(), num_blocks);
}

}  // namespace
}  // namespace rocmforge
