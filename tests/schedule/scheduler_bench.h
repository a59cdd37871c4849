#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "schedule/scheduler.h"

namespace rocmforge {

using Tokens = std::vector<std::int32_t>;

inline Tokens counting(std::int32_t first, std::int32_t count) {
  Tokens tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// Host memory of up to so many blocks, which grows by a few at a time.
struct FewHostBlocks final : HostBlockSource {
  explicit FewHostBlocks(std::int32_t max_blocks) : most(max_blocks) {}
  std::int32_t grow() override {
    there = std::min(there + 3, most);
    return there;
  }

  std::int32_t most;
  std::int32_t there = 0;
};

/// A scheduler with a fake engine: the next token is a function of all earlier tokens, and max_tokens, a full context and
/// shifts are handled as in the engine.
struct Bench {
  Bench(SchedulerLimits limits, std::int32_t num_blocks, std::int32_t tokens_of_a_block = 4, bool prefix = false,
        std::int32_t num_slots = 0, const std::vector<SequenceCache::Window>& windows = {}, std::int32_t host_blocks = 0)
      : block_tokens(tokens_of_a_block),
        states(static_cast<std::size_t>(num_slots)),
        host(1 + windows.size() + (num_slots > 0 ? 1 : 0), FewHostBlocks(host_blocks)),
        host_storage(1 + windows.size(),
                     std::vector<std::uint32_t>(static_cast<std::size_t>(host_blocks * tokens_of_a_block))),
        host_states(static_cast<std::size_t>(host_blocks)),
        memory({num_blocks, tokens_of_a_block, prefix, num_slots, windows, host_blocks > 0 ? sources() : NoSources()}),
        scheduler(std::in_place, limits, memory) {}

  using NoSources = std::vector<HostBlockSource*>;
  std::vector<HostBlockSource*> sources() {
    std::vector<HostBlockSource*> all;
    std::ranges::for_each(host, [&](FewHostBlocks& each) { all.push_back(&each); });
    return all;
  }

  void submit(RequestId id, Tokens prompt, std::int32_t max_tokens, std::int32_t priority = 0, RequestId leader = 0,
              std::uint64_t client = 0) {
    Request request;
    request.client = client;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.priority = priority;
    ASSERT_EQ(submit(id, std::move(request), leader).message, "");
  }
  RequestRefusal submit(RequestId id, Request request, RequestId leader = 0) {
    RequestRefusal refusal = scheduler->refusal(request);
    if (!refusal) {
      const auto leads = unfinished.find(leader);
      std::unique_ptr<Sequence>& sequence = unfinished[id];
      sequence = std::make_unique<Sequence>(id, std::move(request), memory);
      scheduler->submit(*sequence, leads != unfinished.end() && is_open(*leads->second) ? leads->second.get() : nullptr);
    }
    return refusal;
  }

  static bool is_open(const Sequence& sequence) { return sequence.finish == FinishReason::none; }

  void cancel(RequestId id) {
    if (const auto found = unfinished.find(id); found != unfinished.end() && is_open(*found->second)) {
      scheduler->finish(*found->second, FinishReason::cancelled);
    }
  }

  static std::int32_t next_token(const Tokens& tokens) {
    std::uint32_t hash = 17;
    for (const std::int32_t token : tokens) {
      hash = (hash ^ static_cast<std::uint32_t>(token)) * 0x9e3779b1u;
    }
    return static_cast<std::int32_t>(hash >> 8 & 0xffff);
  }

  /// One step; returns the ids and counts of its chunks.
  std::vector<std::pair<RequestId, std::int32_t>> step() {
    std::vector<std::pair<RequestId, std::int32_t>> parts;
    for (Sequence* sequence : scheduler->running()) {
      sequence->set_drafts(draft ? draft(*sequence) : Tokens());
    }
    const std::span<const ScheduledChunk> batch = scheduler->next_batch();
    compute(batch);
    scored_in_step = 0;
    for (const ScheduledChunk& chunk : batch) {
      parts.emplace_back(chunk.sequence->id, chunk.count);
      deliver(chunk);
      scheduler->commit(chunk, drawn(chunk));
      Sequence& sequence = *chunk.sequence;
      if (sequence.finish == FinishReason::none && chunk.completes && chunk.draws == 0) {
        scheduler->finish(sequence, FinishReason::stop);
      } else if (sequence.finish == FinishReason::none && chunk.draws > 0) {
        if (sequence.generated() == sequence.request.max_tokens) {
          scheduler->finish(sequence, FinishReason::length);
        } else if (sequence.length() > scheduler->limits().context_length) {
          if (sequence.request.context_policy == ContextPolicy::shift) {
            scheduler->shift(sequence);
          } else {
            scheduler->finish(sequence, FinishReason::context);
          }
        }
      }
    }
    std::erase_if(unfinished, [&](const auto& entry) {
      const Sequence& sequence = *entry.second;
      if (is_open(sequence)) {
        return false;
      }
      EXPECT_FALSE(finished.contains(sequence.id)) << "a request ends once";
      finished[sequence.id] = {sequence.tokens, sequence.finish, sequence.prefix_hits};
      return true;
    });
    return parts;
  }

  /// `token` is used if the chunk draws one.
  void commit(const ScheduledChunk& chunk, std::int32_t token) {
    scheduler->commit(chunk, std::span(&token, static_cast<std::size_t>(chunk.draws)));
  }

  /// Drawn tokens: accepted drafts, and the first that differs from its draft or has none; sometimes fewer.
  Tokens drawn(const ScheduledChunk& chunk) {
    Tokens tokens;
    const Sequence& sequence = *chunk.sequence;
    Tokens history(sequence.tokens.begin(), sequence.tokens.begin() + sequence.length());
    for (std::int32_t draw = 0; draw < chunk.draws; ++draw) {
      tokens.push_back(next_token(history));
      history.push_back(tokens.back());
      if (draw < chunk.drafts() && sequence.tokens[history.size() - 1] != tokens.back()) {
        break;
      }
    }
    drafted += chunk.drafts();
    accepted += static_cast<std::int64_t>(tokens.size()) - (chunk.draws > 0 ? 1 : 0);
    if (keep_fewer && tokens.size() > 1 && keep_fewer()) {
      tokens.pop_back();
    }
    return tokens;
  }

  void deliver(const ScheduledChunk& chunk) {
    scored_in_step += chunk.scored().count();
    for (std::int32_t p = chunk.scored().first; p < chunk.scored().end; ++p) {
      scored[chunk.sequence->id].push_back(p);
    }
    for (std::int32_t p = chunk.pooled().first; p < chunk.pooled().end; ++p) {
      pooled[chunk.sequence->id].push_back(p);
    }
  }

  /// Calls visit(slot, content, is_new) for every position that the chunk needs of each group. A position's content depends
  /// on all tokens up to it.
  template <class Visit>
  void visit_storage(const ScheduledChunk& chunk, Visit visit) {
    const Sequence& sequence = *chunk.sequence;
    std::uint32_t content = 1;
    for (std::int32_t position = 0; position < chunk.first + chunk.count; ++position) {
      content = content * 31 + static_cast<std::uint32_t>(sequence.tokens[static_cast<std::size_t>(position)]);
      const bool is_new = position >= chunk.first;
      visit(slot_of(0, sequence.cache.pages, position), content, is_new);
      for (std::size_t w = 0; w < groups.size(); ++w) {
        if (position >= first_seen(groups[w].window, chunk.first)) {
          visit(slot_of(w + 1, sequence.cache.windows[w].pages, position), content, is_new);
        }
      }
    }
  }

  std::uint32_t& slot_of(std::size_t group, const PageTable& pages, std::int32_t position) {
    const BlockId block = pages.blocks()[static_cast<std::size_t>(position / block_tokens)];
    EXPECT_GE(block, 0) << "position " << position << " of group " << group << " was given up";
    return storage[group][static_cast<std::size_t>(std::max(block, 0) * block_tokens + position % block_tokens)];
  }

  /// A state is the content of the last position that it includes, and the number of positions. Checks that every sequence
  /// starts from its own state, and that no slot is written that another sequence reads.
  void compute_state(const ScheduledChunk& chunk) {
    const auto content_behind = [&](std::int32_t positions) {
      std::uint32_t content = 1;
      for (std::int32_t position = 0; position < positions; ++position) {
        content = content * 31 + static_cast<std::uint32_t>(chunk.sequence->tokens[static_cast<std::size_t>(position)]);
      }
      return State{positions, content};
    };
    const SequenceState::Step& step = chunk.state;
    ASSERT_EQ(step.from < 0, chunk.first == 0);
    if (step.from >= 0) {
      ASSERT_EQ(states[static_cast<std::size_t>(step.from)], content_behind(chunk.first));
    }
    ASSERT_NE(step.to, step.from);
    ASSERT_EQ(slots->references(step.to), 1);
    states.at(static_cast<std::size_t>(step.to)) = content_behind(chunk.first + chunk.count);
    if (step.kept >= 0) {
      ASSERT_EQ(slots->references(step.kept), 1);
      ASSERT_GT(step.kept_tokens, chunk.first);
      ASSERT_LE(step.kept_tokens, chunk.first + chunk.count);
      states.at(static_cast<std::size_t>(step.kept)) = content_behind(step.kept_tokens);
    }
  }

  void compute(std::span<const ScheduledChunk> batch) {
    storage.resize(1 + groups.size());
    for (std::size_t group = 0; group < storage.size(); ++group) {
      const BlockAllocator& blocks = group == 0 ? allocator : *groups[group - 1].allocator;
      storage[group].resize(static_cast<std::size_t>(blocks.num_blocks() * block_tokens));
    }
    for (const BlockCopy& copy : memory.copies()) {
      const auto group = static_cast<std::size_t>(copy.group);
      if (group < storage.size()) {
        copy_elements(copy, storage[group], host_storage[group], block_tokens);
        ++copied_blocks;
      } else {
        ASSERT_NE(copy.kind, CopyKind::on_device) << "states are read where they are";
        copy_elements(copy, states, host_states, 1);
        ++copied_states;
      }
    }
    memory.copies_made();
    if (slots != nullptr) {
      std::ranges::for_each(batch, [this](const ScheduledChunk& chunk) { compute_state(chunk); });
    }
    for (std::size_t w = 0; w < groups.size(); ++w) {
      const std::int32_t used = groups[w].allocator->num_blocks() - window_blocks_available(w);
      most_window_blocks = std::max(most_window_blocks, used);
    }
    for (const ScheduledChunk& chunk : batch) {
      visit_storage(chunk, [](std::uint32_t& slot, std::uint32_t content, bool is_new) { slot = is_new ? content : slot; });
    }
    for (const ScheduledChunk& chunk : batch) {
      visit_storage(chunk, [](std::uint32_t slot, std::uint32_t content, bool) { ASSERT_EQ(slot, content); });
    }
  }

  template <class T>
  static void copy_elements(const BlockCopy& copy, std::vector<T>& device, std::vector<T>& on_host, std::int32_t count) {
    const std::vector<T>& from = copy.kind == CopyKind::from_host ? on_host : device;
    std::vector<T>& to = copy.kind == CopyKind::to_host ? on_host : device;
    std::copy_n(from.begin() + copy.from * count, count, to.begin() + copy.to * count);
  }

  void run() {
    for (int steps = 0; scheduler->has_work(); ++steps) {
      ASSERT_LT(steps, 100'000) << "the work never ends";
      step();
    }
  }

  [[nodiscard]] std::int32_t blocks_available() const {
    return allocator.num_free() + (cache != nullptr ? cache->num_evictable() : 0);
  }

  [[nodiscard]] std::int32_t window_blocks_available(std::size_t window) const {
    return groups[window].allocator->num_free() + (cache != nullptr ? cache->num_evictable(window) : 0);
  }

  [[nodiscard]] std::int32_t slots_available() const {
    return slots->num_free() + (cache != nullptr ? cache->num_evictable_states() : 0);
  }

  struct State {
    std::int32_t positions = -1;
    std::uint32_t content = 0;
    friend bool operator==(const State&, const State&) = default;
  };
  struct Result {
    Tokens tokens;
    FinishReason finish = FinishReason::none;
    std::int32_t prefix_hits = 0;
  };
  std::int32_t block_tokens;
  std::vector<std::vector<std::uint32_t>> storage;  ///< of each group: what each slot of the cache was last written with
  std::int32_t most_window_blocks = 0;              ///< the most blocks that sequences held of one group in a step
  std::function<Tokens(const Sequence&)> draft;     ///< drafts of a running sequence before a step; empty: none
  std::function<bool()> keep_fewer;                 ///< whether the last drawn token of several is dropped
  std::int64_t drafted = 0;                         ///< computed in all steps
  std::int64_t accepted = 0;
  int copied_blocks = 0;
  int copied_states = 0;
  std::int32_t scored_in_step = 0;
  std::map<RequestId, Tokens> scored;  ///< positions
  std::map<RequestId, Tokens> pooled;
  std::vector<State> states;                             ///< of each slot
  std::vector<FewHostBlocks> host;                       ///< of each kind
  std::vector<std::vector<std::uint32_t>> host_storage;  ///< of each group
  std::vector<State> host_states;
  SequenceCache memory;
  BlockAllocator& allocator = memory.blocks();
  std::span<const WindowGroup> groups = memory.windows();  ///< with a window
  const BlockAllocator* slots = memory.slots();            ///< null for none
  PrefixCache* cache = memory.prefixes();                  ///< null for none
  std::optional<Scheduler> scheduler;
  std::map<RequestId, std::unique_ptr<Sequence>> unfinished;  ///< and those that have ended since the last step
  std::map<RequestId, Result> finished;
};

inline Tokens alone(const Tokens& prompt, std::int32_t max_tokens) {
  Tokens tokens = prompt;
  for (std::int32_t i = 0; i < max_tokens; ++i) {
    tokens.push_back(Bench::next_token(tokens));
  }
  return tokens;
}

}  // namespace rocmforge
