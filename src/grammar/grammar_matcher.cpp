#include "grammar/grammar_matcher.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"

namespace rocmforge {
namespace {

constexpr std::size_t mask_memory_bytes = std::size_t{8} << 20, fewest_masks = 16;
// Work for nodes of the trie that lead to known states.
constexpr std::uint32_t nodes_per_unit = 4;
// Limits of work for accepting a text. A token whose mask was just computed takes almost none.
constexpr std::uint64_t most_accept_work = 200'000, most_accept_work_per_byte = 200;

}  // namespace

std::shared_ptr<GrammarMatcher> GrammarMatcher::create(Grammar grammar, std::shared_ptr<const TokenTrie> trie,
                                                       WorkBudget& budget) {
  check(trie != nullptr, "a grammar needs a vocabulary");
  return std::shared_ptr<GrammarMatcher>(new GrammarMatcher(std::move(grammar), std::move(trie), budget));
}

std::shared_ptr<GrammarMatcher> GrammarMatcher::create(Grammar grammar, std::shared_ptr<const TokenTrie> trie) {
  WorkBudget budget(grammar_compile_units, "grammar: compiling it");
  return create(std::move(grammar), std::move(trie), budget);
}

GrammarMatcher::GrammarMatcher(Grammar grammar, std::shared_ptr<const TokenTrie> trie, WorkBudget& budget)
    : grammar_(std::move(grammar)), trie_(std::move(trie)), states_([&] {
        auto automaton = std::make_shared<const ByteAutomaton>(grammar_, budget);
        automaton_bytes_ = automaton->memory_bytes();
        return AutomatonStates(std::move(automaton));
      }()) {
  budget.spend(states_.work());
}

std::size_t GrammarMatcher::memory_bytes() const {
  const std::scoped_lock lock(mutex_);
  const std::size_t mask_bytes = trie_->mask_words() * sizeof(std::uint32_t);
  const auto walks = static_cast<std::size_t>(
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.walk != nullptr; }));
  return grammar_.memory_bytes() + automaton_bytes_ + states_.memory_bytes() + slots_.capacity() * sizeof(Slot) +
         masks_.size() * mask_bytes + walks * (mask_bytes + (trie_->longest() + 1) * sizeof(State));
}

std::size_t GrammarMatcher::open_slot(State state) {
  if (free_slots_.empty()) {
    slots_.push_back({state});
    return slots_.size() - 1;
  }
  const std::size_t slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[slot].state = state;
  return slot;
}

/// Drops the states that no cursor, cached mask or walk needs.
void GrammarMatcher::make_room() {
  std::vector<State*> used;
  const auto drop = [&] {
    used.clear();
    for (Slot& slot : slots_) {
      used.push_back(&slot.state);
      for (std::size_t i = 0; slot.walk != nullptr && i <= part(slot.walk->part).nodes[slot.walk->node].depth; ++i) {
        used.push_back(&slot.walk->path[i]);
      }
    }
    for (auto& [state, mask] : masks_) {
      used.push_back(&state);
    }
    states_.drop_unused(used);
  };
  drop();
  if (states_.is_crowded()) {
    masks_.clear();
    drop();
  }
  mask_of_state_.clear();
  for (auto entry = masks_.begin(); entry != masks_.end(); ++entry) {
    mask_of_state_.emplace(entry->first, entry);
  }
  if (states_.is_crowded()) {
    throw Error("grammar: too ambiguous: too many readings of the text are possible at once");
  }
}

std::unique_ptr<GrammarMatcher::Walk> GrammarMatcher::begin_walk(State state) const {
  auto walk = std::make_unique<Walk>();
  walk->mask.assign(trie_->mask_words(), 0);
  walk->path.assign(trie_->longest() + 1, AutomatonStates::dead);
  walk->path[0] = state;
  if (states_.accepts(state)) {
    for (const std::int32_t token : trie_->end_ids()) {
      walk->mask[static_cast<std::size_t>(token) / 32] |= 1u << (token % 32);
    }
  }
  if (states_.plain_steps(state) >= ByteAutomaton::most_plain_steps) {
    std::transform(walk->mask.begin(), walk->mask.end(), trie_->plain_mask().begin(), walk->mask.begin(), std::bit_or<>());
    walk->part = 1;
  }
  return walk;
}

/// Adds the tokens that may follow path[0], until states_.work() reaches `end_of_work`. True when all were examined.
bool GrammarMatcher::go_on(Walk& walk, std::uint64_t end_of_work) {
  for (; walk.part < 2; ++walk.part, walk.node = 0) {
    const TokenTrie::Part& tokens = part(walk.part);
    const TokenTrie::Node* const nodes = tokens.nodes.data();
    const auto count = static_cast<std::uint32_t>(tokens.nodes.size() - 1);
    std::uint32_t known = 0;
    std::uint64_t next_check = 0;
    while (walk.node < count) {
      if (++known == nodes_per_unit) {
        known = 0;
        states_.spend(1);
      }
      if (states_.work() >= end_of_work) {
        return false;
      }
      if (states_.work() >= next_check) {  // memory grows only with work
        if (states_.is_full()) {
          make_room();
        }
        next_check = states_.work() + 1000;
      }
      const TokenTrie::Node& node = nodes[walk.node];
      const State next = states_.next(walk.path[node.depth], node.byte);
      if (next == AutomatonStates::dead) {
        walk.node = node.end;
        continue;
      }
      for (std::uint32_t token = node.first_token; token < nodes[walk.node + 1].first_token; ++token) {
        const auto id = static_cast<std::uint32_t>(tokens.tokens[token]);
        walk.mask[id / 32] |= 1u << (id % 32);
      }
      walk.path[node.depth + 1u] = next;
      ++walk.node;
    }
  }
  return true;
}

const GrammarMatcher::Mask* GrammarMatcher::find_mask(State state) {
  const auto known = mask_of_state_.find(state);
  if (known == mask_of_state_.end()) {
    return nullptr;
  }
  masks_.splice(masks_.begin(), masks_, known->second);
  return &masks_.front().second;
}

const GrammarMatcher::Mask& GrammarMatcher::keep_mask(State state, Mask mask) {
  const std::size_t most_masks = std::max(fewest_masks, mask_memory_bytes / (mask.size() * sizeof(std::uint32_t)));
  while (masks_.size() >= most_masks) {
    mask_of_state_.erase(masks_.back().first);
    masks_.pop_back();
  }
  masks_.emplace_front(state, std::move(mask));
  mask_of_state_.emplace(state, masks_.begin());
  return masks_.front().second;
}

/// Null if more than `units` are needed. States are renumbered if unused ones are dropped.
const GrammarMatcher::Mask* GrammarMatcher::mask_of(Slot& slot, std::uint64_t units) {
  if (const Mask* known = find_mask(slot.state)) {
    slot.walk.reset();
    return known;
  }
  if (slot.walk == nullptr) {
    slot.walk = begin_walk(slot.state);
  }
  Walk& walk = *slot.walk;
  const std::uint64_t before = states_.work();
  const std::uint64_t left = most_mask_work - std::min(most_mask_work, walk.work);
  // The work for the last byte may exceed `units`.
  states_.allow_work(std::min(left, std::min(units, most_mask_work) + most_byte_work));
  const bool is_final = states_.is_final(slot.state);
  bool is_complete = false;
  try {
    is_complete = is_final || go_on(walk, before + std::min(units, most_mask_work));
  } catch (const Error&) {
    walk.work = most_mask_work;  // a new attempt would fail in the same way
    throw;
  }
  walk.work += states_.work() - before;
  if (!is_complete) {
    return nullptr;
  }
  const std::unique_ptr<Walk> done = std::move(slot.walk);
  if (std::all_of(done->mask.begin(), done->mask.end(), [](std::uint32_t word) { return word == 0; })) {
    throw Error("grammar: no token of the vocabulary continues this text");
  }
  return &keep_mask(slot.state, std::move(done->mask));
}

GrammarMatcher::Cursor::Cursor(std::shared_ptr<GrammarMatcher> matcher) : matcher_(std::move(matcher)) {
  const std::scoped_lock lock(matcher_->mutex_);
  slot_ = matcher_->open_slot(matcher_->states_.start());
}

GrammarMatcher::Cursor::Cursor(const Cursor& other) : matcher_(other.matcher_) {
  const std::scoped_lock lock(matcher_->mutex_);
  slot_ = matcher_->open_slot(matcher_->slots_[other.slot_].state);
}

GrammarMatcher::Cursor& GrammarMatcher::Cursor::operator=(const Cursor& other) {
  check(matcher_ == other.matcher_, "a cursor stays in its grammar");
  const std::scoped_lock lock(matcher_->mutex_);
  const State state = matcher_->slots_[other.slot_].state;
  if (state != matcher_->slots_[slot_].state) {
    matcher_->slots_[slot_] = {state};
  }
  return *this;
}

GrammarMatcher::Cursor::~Cursor() {
  const std::scoped_lock lock(matcher_->mutex_);
  matcher_->slots_[slot_] = {};
  matcher_->free_slots_.push_back(slot_);
}

bool GrammarMatcher::Cursor::allowed_within(std::uint64_t units, std::span<std::uint32_t> mask) {
  check(mask.size() >= matcher_->trie_->mask_words(), "a mask has a bit for every token");
  const std::scoped_lock lock(matcher_->mutex_);
  const AutomatonStates& states = matcher_->states_;
  const std::uint64_t before = states.work();
  const Mask* words = nullptr;
  try {
    words = matcher_->mask_of(matcher_->slots_[slot_], units);
  } catch (const Error&) {
    work_ += states.work() - before;
    throw;
  }
  work_ += states.work() - before;
  if (words == nullptr) {
    return false;
  }
  std::fill(std::copy(words->begin(), words->end(), mask.begin()), mask.end(), 0u);
  return true;
}

bool GrammarMatcher::Cursor::accept(std::string_view bytes) {
  const std::scoped_lock lock(matcher_->mutex_);
  AutomatonStates& states = matcher_->states_;
  const std::uint64_t before = states.work();
  states.allow_work(most_accept_work + most_accept_work_per_byte * bytes.size());
  if (states.is_full()) {
    matcher_->make_room();
  }
  Slot& slot = matcher_->slots_[slot_];
  State state = slot.state;
  for (const char byte : bytes) {
    state = states.next(state, static_cast<std::uint8_t>(byte));
    if (state == AutomatonStates::dead) {
      break;
    }
  }
  work_ += states.work() - before;
  if (state == AutomatonStates::dead) {
    return false;
  }
  slot = {state};
  return true;
}

bool GrammarMatcher::Cursor::may_end() const {
  const std::scoped_lock lock(matcher_->mutex_);
  return matcher_->states_.accepts(matcher_->slots_[slot_].state);
}

bool GrammarMatcher::Cursor::at_end() const {
  const std::scoped_lock lock(matcher_->mutex_);
  return matcher_->states_.is_final(matcher_->slots_[slot_].state);
}

}  // namespace rocmforge
