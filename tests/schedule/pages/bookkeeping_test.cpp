#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "base/error.h"
#include "schedule/pages/block_allocator.h"
#include "schedule/pages/page_table.h"
#include "schedule/pages/prefix_cache.h"

namespace rocmforge {
namespace {

using Tokens = std::vector<std::int32_t>;

/// Collides for every other block: matches must not depend on hashes alone.
std::uint64_t poor_hash(std::uint64_t parent, std::span<const std::int32_t> tokens) {
  std::uint64_t sum = parent % 7;
  for (const std::int32_t token : tokens) {
    sum += static_cast<std::uint64_t>(token) % 5;
  }
  return 1 + sum % 50;
}

/// Sequences that share blocks by forks and prefixes, in any order of operations. Each slot of the cache stores the hash of
/// all tokens up to its own, so that a block of another sequence in a table is detected.
class Bookkeeping final : HostBlockSource {
 public:
  /// With `host_blocks` blocks that are freed are kept in so many of host memory.
  Bookkeeping(std::int32_t num_blocks, PrefixCache::BlockHash hash, unsigned seed, std::int32_t host_blocks = 0)
      : allocator_(num_blocks),
        cache_(std::make_unique<PrefixCache>(allocator_, block_tokens, hash)),
        storage_(static_cast<std::size_t>(num_blocks * block_tokens)),
        host_storage_(static_cast<std::size_t>(host_blocks * block_tokens)),
        max_host_blocks_(host_blocks),
        random_(seed) {
    if (host_blocks > 0) {
      HostBlockSource* const source = this;
      cache_->keep_on_host({&source, 1}, planned_);
    }
  }

  void run(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFatalFailure(); ++i) {
      operate();
      if (i % 64 == 0) {
        check_counts();
      }
    }
    sequences_.clear();
    check_counts();
    EXPECT_EQ(cache_->num_evictable(), cache_->num_blocks());
    cache_.reset();
    EXPECT_EQ(allocator_.num_free(), allocator_.num_blocks());
  }

  [[nodiscard]] int copies() const { return num_copies_; }
  [[nodiscard]] int hits() const { return num_hits_; }
  [[nodiscard]] int preemptions() const { return num_preemptions_; }
  [[nodiscard]] int restored() const { return num_restored_; }

 private:
  static constexpr std::int32_t block_tokens = 4;
  static constexpr std::size_t most_sequences = 12;
  static constexpr std::size_t longest = 60;

  struct Sequence {
    PageTable pages;
    Tokens tokens;
    std::int32_t cached = 0;
  };

  std::uint32_t below(std::size_t count) { return static_cast<std::uint32_t>(random_() % count); }
  Sequence& any() { return sequences_[below(sequences_.size())]; }

  void operate() {
    const std::uint32_t choice = below(20);
    if (sequences_.empty() || (choice < 3 && sequences_.size() < most_sequences)) {
      start();
    } else if (choice < 11) {
      write(below(sequences_.size()));
    } else if (choice < 13) {
      fork();
    } else if (choice < 14) {
      remember(any());
    } else if (choice < 15) {
      evict(static_cast<std::int32_t>(below(6)));
    } else if (choice < 16) {
      preempt(any());
    } else if (choice < 17) {
      finish(true);
    } else if (choice < 18) {
      finish(false);  // cancelled: nothing is inserted into the prefix cache
    } else if (choice < 19) {
      shift(any());
    } else {
      refuse_misuse();
    }
  }

  /// A prompt of one of three groups, in which each prompt is a prefix of the longer ones.
  void start() {
    Sequence sequence{PageTable(allocator_, block_tokens), Tokens(1 + below(longest - 8)), 0};
    const auto first = static_cast<std::int32_t>(below(3));
    for (std::size_t i = 0; i < sequence.tokens.size(); ++i) {
      sequence.tokens[i] = first + static_cast<std::int32_t>(i * i % 11);
    }
    sequences_.push_back(std::move(sequence));
    find_prefix(sequences_.back());
  }

  void find_prefix(Sequence& sequence) {
    sequence.pages.adopt(cache_->match(sequence.tokens));
    sequence.cached = sequence.pages.capacity_tokens();
    if (max_host_blocks_ > 0) {
      restore(sequence);
    }
    ASSERT_LT(sequence.cached, std::ssize(sequence.tokens));
    num_hits_ += sequence.cached > 0 ? 1 : 0;
    check_content(sequence);
  }

  std::int32_t grow() override {
    num_host_blocks_ = std::min(num_host_blocks_ + 3, max_host_blocks_);
    return num_host_blocks_;
  }

  void restore(Sequence& sequence) {
    const PrefixCache::Held held = cache_->hold(sequence.tokens);
    const auto known = static_cast<std::int32_t>(held.num_blocks()) * block_tokens;
    const std::size_t own = sequence.pages.blocks().size();
    evict(sequence.pages.blocks_needed(known));
    if (sequence.pages.reserve(known)) {
      cache_->restore(held, {.first = own, .blocks = sequence.pages.blocks()});
      copy();
      sequence.cached = known;
      num_restored_ += static_cast<int>(held.num_blocks() - own);
    }
  }

  void evict(std::int32_t count) {
    cache_->evict(count);
    copy();
    ASSERT_LE(cache_->num_on_host(), num_host_blocks_);
  }

  /// Makes the copies that the cache asks for.
  void copy() {
    for (const BlockCopy& copy : planned_) {
      const auto& from = copy.kind == CopyKind::from_host ? host_storage_ : storage_;
      auto& to = copy.kind == CopyKind::to_host ? host_storage_ : storage_;
      std::copy_n(from.begin() + copy.from * block_tokens, block_tokens, to.begin() + copy.to * block_tokens);
    }
    planned_.clear();
  }

  /// Some more tokens; when blocks are missing they are taken from the prefix cache, then from another sequence.
  void write(std::size_t index) {
    Sequence& sequence = sequences_[index];
    for (std::uint32_t more = below(6); more > 0 && sequence.tokens.size() < longest; --more) {
      sequence.tokens.push_back(static_cast<std::int32_t>(below(11)));
    }
    const auto length = static_cast<std::int32_t>(sequence.tokens.size());
    const std::int32_t until = sequence.cached + static_cast<std::int32_t>(below(9));
    const std::int32_t end = std::min(length, until);
    const auto wanted = [&] { return sequence.pages.blocks_needed(end) + sequence.pages.shared_blocks(sequence.cached); };
    evict(wanted());
    if (!allocator_.can_allocate(wanted())) {
      const std::vector<BlockId> before(sequence.pages.blocks().begin(), sequence.pages.blocks().end());
      std::vector<BlockCopy> none;
      if (allocator_.num_free() < sequence.pages.blocks_needed(end)) {
        ASSERT_FALSE(sequence.pages.reserve(end));
      }
      if (allocator_.num_free() < sequence.pages.shared_blocks(sequence.cached)) {
        ASSERT_FALSE(sequence.pages.make_writable(sequence.cached, none));
      }
      ASSERT_TRUE(none.empty() && std::ranges::equal(before, sequence.pages.blocks())) << "a refusal changes nothing";
      preempt(sequences_[(index + 1 + below(sequences_.size())) % sequences_.size()]);
      return;
    }
    std::vector<BlockCopy> copies;
    ASSERT_TRUE(sequence.pages.make_writable(sequence.cached, copies));
    ASSERT_TRUE(sequence.pages.reserve(end));
    for (const BlockCopy& copy : copies) {
      std::copy_n(storage_.begin() + copy.from * block_tokens, block_tokens, storage_.begin() + copy.to * block_tokens);
    }
    num_copies_ += static_cast<int>(copies.size());
    std::uint32_t content = 1;
    for (std::int32_t position = 0; position < end; ++position) {
      content = next_content(content, sequence, position);
      if (position >= sequence.cached) {
        ASSERT_EQ(allocator_.references(block_of(sequence, position)), 1) << "others read what is written";
        slot(sequence, position) = content;
      }
    }
    sequence.cached = std::max(sequence.cached, end);
    check_content(sequence);
  }

  void fork() {
    if (sequences_.size() >= most_sequences) {
      return;
    }
    const Sequence& from = any();
    const auto shared = static_cast<std::int32_t>(below(static_cast<std::size_t>(from.cached) + 1));
    Sequence sequence{PageTable(allocator_, block_tokens), from.tokens, shared};
    sequence.pages.adopt(from.pages.blocks().first(static_cast<std::size_t>((shared + block_tokens - 1) / block_tokens)));
    for (std::size_t i = static_cast<std::size_t>(shared); i < sequence.tokens.size(); ++i) {
      sequence.tokens[i] = static_cast<std::int32_t>(below(11));
    }
    sequences_.push_back(std::move(sequence));
    check_content(sequences_.back());
  }

  void remember(const Sequence& sequence) {
    cache_->insert(std::span(sequence.tokens).first(static_cast<std::size_t>(sequence.cached)), sequence.pages.blocks());
  }

  void preempt(Sequence& sequence) {
    remember(sequence);
    sequence.pages.clear();
    sequence.cached = 0;
    ++num_preemptions_;
    if (below(2) == 0) {
      find_prefix(sequence);
    }
  }

  void finish(bool remembered) {
    const auto victim = sequences_.begin() + below(sequences_.size());
    if (remembered) {
      remember(*victim);
    }
    sequences_.erase(victim);
  }

  void shift(Sequence& sequence) {
    const auto length = static_cast<std::int32_t>(sequence.tokens.size());
    const auto keep = static_cast<std::int32_t>(below(sequence.tokens.size()));
    const std::int32_t dropped = (length - keep) / 2;
    sequence.tokens.erase(sequence.tokens.begin() + keep, sequence.tokens.begin() + keep + dropped);
    sequence.cached = std::min(sequence.cached, keep / block_tokens * block_tokens);
    sequence.pages.truncate(sequence.cached);
    check_content(sequence);
  }

  void refuse_misuse() {
    for (BlockId block = 0; block < allocator_.num_blocks(); ++block) {
      if (allocator_.references(block) == 0) {
        ASSERT_THROW(allocator_.release(block), LogicError);
        ASSERT_THROW(allocator_.retain(block), LogicError);
        return;
      }
    }
    ASSERT_THROW(allocator_.allocate(), LogicError);
  }

  static std::uint32_t next_content(std::uint32_t content, const Sequence& sequence, std::int32_t position) {
    return content * 31 + static_cast<std::uint32_t>(sequence.tokens[static_cast<std::size_t>(position)]) + 1;
  }
  static BlockId block_of(const Sequence& sequence, std::int32_t position) {
    return sequence.pages.blocks()[static_cast<std::size_t>(position / block_tokens)];
  }
  std::uint32_t& slot(const Sequence& sequence, std::int32_t position) {
    return storage_[static_cast<std::size_t>(block_of(sequence, position) * block_tokens + position % block_tokens)];
  }

  void check_content(const Sequence& sequence) {
    std::uint32_t content = 1;
    for (std::int32_t position = 0; position < sequence.cached; ++position) {
      content = next_content(content, sequence, position);
      ASSERT_EQ(slot(sequence, position), content) << "position " << position << " holds something else";
    }
  }

  /// References are those of the tables and of the prefix cache, which has each of its blocks once.
  void check_counts() {
    std::vector<std::int32_t> held(static_cast<std::size_t>(allocator_.num_blocks()), 0);
    for (Sequence& sequence : sequences_) {
      ASSERT_GE(sequence.pages.capacity_tokens(), sequence.cached);
      for (const BlockId block : sequence.pages.blocks()) {
        ++held[static_cast<std::size_t>(block)];
      }
      check_content(sequence);
    }
    std::int32_t remembered = 0;
    std::int32_t unused = 0;
    std::int32_t free = 0;
    for (BlockId block = 0; block < allocator_.num_blocks(); ++block) {
      const std::int32_t others = allocator_.references(block) - held[static_cast<std::size_t>(block)];
      ASSERT_TRUE(others == 0 || others == 1) << "block " << block;
      remembered += others;
      unused += others == 1 && held[static_cast<std::size_t>(block)] == 0 ? 1 : 0;
      free += allocator_.references(block) == 0 ? 1 : 0;
    }
    ASSERT_EQ(remembered, cache_->num_blocks());
    ASSERT_EQ(free, allocator_.num_free());
    ASSERT_EQ(unused, cache_->num_evictable()) << "a block that no sequence holds can be had";
  }

  BlockAllocator allocator_;
  std::unique_ptr<PrefixCache> cache_;
  std::vector<std::uint32_t> storage_;
  std::vector<std::uint32_t> host_storage_;
  std::int32_t max_host_blocks_;
  std::int32_t num_host_blocks_ = 0;
  std::vector<BlockCopy> planned_;
  std::mt19937 random_;
  std::vector<Sequence> sequences_;
  int num_copies_ = 0;
  int num_hits_ = 0;
  int num_preemptions_ = 0;
  int num_restored_ = 0;
};

TEST(Bookkeeping, AMillionRandomOperationsKeepEveryCount) {
  Bookkeeping bookkeeping(64, PrefixCache::hash_block, 1);
  bookkeeping.run(1'000'000);
  EXPECT_GT(bookkeeping.copies(), 1000);
  EXPECT_GT(bookkeeping.hits(), 1000);
  EXPECT_GT(bookkeeping.preemptions(), 1000);
}

TEST(Bookkeeping, CollidingHashesNeverMixPrompts) {
  Bookkeeping bookkeeping(64, poor_hash, 2);
  bookkeeping.run(100'000);
  EXPECT_GT(bookkeeping.hits(), 100);
}

TEST(Bookkeeping, AFewBlocksForMany) {
  for (std::int32_t blocks = 1; blocks <= 16; ++blocks) {
    Bookkeeping bookkeeping(blocks, PrefixCache::hash_block, static_cast<unsigned>(blocks));
    bookkeeping.run(20'000);
  }
}

TEST(Bookkeeping, BlocksComeBackFromHostMemoryAsTheyWere) {
  for (const PrefixCache::BlockHash hash :
       {PrefixCache::BlockHash(PrefixCache::hash_block), PrefixCache::BlockHash(poor_hash)}) {
    for (const std::int32_t host_blocks : {1, 5, 40, 400}) {
      Bookkeeping bookkeeping(40, hash, static_cast<unsigned>(host_blocks), host_blocks);
      bookkeeping.run(50'000);
      EXPECT_GT(bookkeeping.restored(), host_blocks < 40 ? 10 : 300) << host_blocks;
    }
  }
}

}  // namespace
}  // namespace rocmforge
