#include "engine/grammar/grammar_matcher.h"

#include <algorithm>

#include "base/error.h"

namespace rocmforge {
namespace {

constexpr std::uint64_t most_work = 4'000'000;  // for one mask or token, about 50 ms
constexpr std::size_t mask_memory_bytes = std::size_t{32} << 20;

}  // namespace

std::shared_ptr<GrammarMatcher> GrammarMatcher::create(const std::string& gbnf, std::shared_ptr<const TokenTrie> trie) {
  check(trie != nullptr, "a grammar needs a vocabulary");
  return std::shared_ptr<GrammarMatcher>(new GrammarMatcher(gbnf, std::move(trie)));
}

GrammarMatcher::GrammarMatcher(const std::string& gbnf, std::shared_ptr<const TokenTrie> trie)
    : trie_(std::move(trie)),
      states_(std::make_shared<const ByteAutomaton>(parse_gbnf(gbnf))),
      path_(trie_->longest() + 1, AutomatonStates::dead) {}

std::size_t GrammarMatcher::open_slot(State state) {
  if (free_slots_.empty()) {
    slots_.push_back(state);
    return slots_.size() - 1;
  }
  const std::size_t slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[slot] = state;
  return slot;
}

/// Drops what no cursor, cached mask or the walk needs.
void GrammarMatcher::make_room(std::size_t path_size) {
  std::vector<State*> used;
  const auto drop = [&] {
    used.clear();
    for (State& state : slots_) {
      used.push_back(&state);
    }
    for (auto& [state, mask] : masks_) {
      used.push_back(&state);
    }
    for (std::size_t i = 0; i < path_size; ++i) {
      used.push_back(&path_[i]);
    }
    states_.drop_unused(used);
  };
  drop();
  if (states_.is_full()) {
    masks_.clear();
    drop();
  }
  mask_of_state_.clear();
  for (auto entry = masks_.begin(); entry != masks_.end(); ++entry) {
    mask_of_state_.emplace(entry->first, entry);
  }
  if (states_.is_full()) {
    throw Error("grammar: too ambiguous: too many readings of the text are possible at once");
  }
}

/// Adds the tokens of `part` that may follow path_[0].
void GrammarMatcher::walk(const TokenTrie::Part& part, Mask& mask) {
  const TokenTrie::Node* const nodes = part.nodes.data();
  const auto count = static_cast<std::uint32_t>(part.nodes.size() - 1);
  std::uint32_t since_check = 0;
  for (std::uint32_t i = 0; i < count;) {
    const TokenTrie::Node& node = nodes[i];
    if (++since_check == 64) {
      since_check = 0;
      if (states_.is_full()) {
        make_room(node.depth + 1u);
      }
    }
    const State next = states_.next(path_[node.depth], node.byte);
    if (next == AutomatonStates::dead) {
      i = node.end;
      continue;
    }
    for (std::uint32_t token = node.first_token; token < nodes[i + 1].first_token; ++token) {
      const auto id = static_cast<std::uint32_t>(part.tokens[token]);
      mask[id / 32] |= 1u << (id % 32);
    }
    path_[node.depth + 1u] = next;
    ++i;
  }
}

/// `state` may get another number, when places are dropped; it lies in slots_.
const GrammarMatcher::Mask& GrammarMatcher::mask_of(State& state) {
  const auto known = mask_of_state_.find(state);
  if (known != mask_of_state_.end()) {
    masks_.splice(masks_.begin(), masks_, known->second);
    return masks_.front().second;
  }
  states_.allow_work(most_work);
  Mask mask(trie_->mask_words(), 0);
  if (states_.accepts(state)) {
    for (const std::int32_t token : trie_->end_ids()) {
      mask[static_cast<std::size_t>(token) / 32] |= 1u << (token % 32);
    }
  }
  if (!states_.is_final(state)) {
    path_[0] = state;
    if (states_.plain_steps(state) >= ByteAutomaton::most_plain_steps) {
      std::transform(mask.begin(), mask.end(), trie_->plain_mask().begin(), mask.begin(), std::bit_or<>());
    } else {
      walk(trie_->plain(), mask);
    }
    path_[0] = state;
    walk(trie_->other(), mask);
  }
  if (std::all_of(mask.begin(), mask.end(), [](std::uint32_t word) { return word == 0; })) {
    throw Error("grammar: no token of the vocabulary continues this text");
  }
  const std::size_t most_masks = std::max<std::size_t>(16, mask_memory_bytes / (mask.size() * sizeof(std::uint32_t)));
  while (masks_.size() >= most_masks) {
    mask_of_state_.erase(masks_.back().first);
    masks_.pop_back();
  }
  masks_.emplace_front(state, std::move(mask));
  mask_of_state_.emplace(state, masks_.begin());
  return masks_.front().second;
}

GrammarMatcher::Cursor::Cursor(std::shared_ptr<GrammarMatcher> matcher) : matcher_(std::move(matcher)) {
  const std::scoped_lock lock(matcher_->mutex_);
  slot_ = matcher_->open_slot(matcher_->states_.start());
}

GrammarMatcher::Cursor::Cursor(const Cursor& other) : matcher_(other.matcher_) {
  const std::scoped_lock lock(matcher_->mutex_);
  slot_ = matcher_->open_slot(matcher_->state_of(other.slot_));
}

GrammarMatcher::Cursor::~Cursor() {
  const std::scoped_lock lock(matcher_->mutex_);
  matcher_->slots_[slot_] = AutomatonStates::dead;
  matcher_->free_slots_.push_back(slot_);
}

void GrammarMatcher::Cursor::allowed(std::span<std::uint32_t> mask) const {
  check(mask.size() >= matcher_->trie_->mask_words(), "a mask has a bit for every token");
  const std::scoped_lock lock(matcher_->mutex_);
  const Mask& words = matcher_->mask_of(matcher_->state_of(slot_));
  std::fill(std::copy(words.begin(), words.end(), mask.begin()), mask.end(), 0u);
}

bool GrammarMatcher::Cursor::accept(std::string_view bytes) {
  const std::scoped_lock lock(matcher_->mutex_);
  AutomatonStates& states = matcher_->states_;
  if (states.is_full()) {
    matcher_->make_room(0);
  }
  states.allow_work(most_work);
  State state = matcher_->state_of(slot_);
  for (const char byte : bytes) {
    state = states.next(state, static_cast<std::uint8_t>(byte));
    if (state == AutomatonStates::dead) {
      return false;
    }
  }
  matcher_->state_of(slot_) = state;
  return true;
}

bool GrammarMatcher::Cursor::may_end() const {
  const std::scoped_lock lock(matcher_->mutex_);
  return matcher_->states_.accepts(matcher_->state_of(slot_));
}

bool GrammarMatcher::Cursor::at_end() const {
  const std::scoped_lock lock(matcher_->mutex_);
  return matcher_->states_.is_final(matcher_->state_of(slot_));
}

}  // namespace rocmforge
