#include "grammar/automaton_states.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "base/error.h"

namespace rocmforge {
namespace {

constexpr std::int32_t deepest_stack = 2000;
constexpr std::uint64_t start_work = 1'000'000;

constexpr std::uint64_t item_of(std::int32_t position, std::int32_t stack) {
  return static_cast<std::uint64_t>(position) << 32 | static_cast<std::uint32_t>(stack);
}
constexpr std::int32_t position_of(std::uint64_t item) { return static_cast<std::int32_t>(item >> 32); }
constexpr std::int32_t stack_of(std::uint64_t item) { return static_cast<std::int32_t>(item & 0xFFFFFFFFu); }

}  // namespace

std::size_t AutomatonStates::ItemsHash::operator()(const Items& items) const {
  std::uint64_t hash = 0x9E3779B97F4A7C15u ^ items.size();
  for (const Item item : items) {  // the mixing of splitmix64
    hash = (hash ^ item) * 0xBF58476D1CE4E5B9u;
    hash ^= hash >> 29;
  }
  return hash;
}

AutomatonStates::AutomatonStates(std::shared_ptr<const ByteAutomaton> automaton)
    : automaton_(std::move(automaton)), num_classes_(automaton_->num_classes()) {
  allow_work(start_work);
  add_fixed();
  const std::int32_t entry = automaton_->entry(automaton_->root());
  Items reached;
  Items items;
  if (!automaton_->edges(entry).empty() || !automaton_->calls(entry).empty()) {
    reached.push_back(item_of(entry, bottom));
    items.push_back(reached.front());
  }
  call(reached, items);
  start_ = intern_state(std::move(items), automaton_->accepts(entry));
}

AutomatonStates::AutomatonStates(const AutomatonStates& other, Empty /*tag*/)
    : automaton_(other.automaton_), num_classes_(other.num_classes_) {
  allow_work(std::numeric_limits<std::uint64_t>::max());
  add_fixed();
}

/// Adds the states and stacks that every table begins with.
void AutomatonStates::add_fixed() {
  const State none = intern_state({}, false);
  check(none == dead, "the dead state comes first");
  // The bottom stack returns to the end of the text with itself below, so that it merges like any other stack.
  stacks_.push_back({{item_of(ByteAutomaton::end_of_text, bottom)}, 0});
  stack_numbers_.emplace(stacks_[bottom].returns, bottom);
}

void AutomatonStates::allow_work(std::uint64_t units) {
  most_work_ =
      units > std::numeric_limits<std::uint64_t>::max() - work_ ? std::numeric_limits<std::uint64_t>::max() : work_ + units;
}

void AutomatonStates::spend(std::uint64_t units) {
  work_ += units;
  if (work_ > most_work_) {
    throw Error("grammar: too ambiguous: telling what may follow this text takes more work than a token may");
  }
}

std::size_t AutomatonStates::memory_bytes() const {
  // A hash table's entry: its vector, hash, links, and what the allocator adds.
  constexpr std::size_t entry = 80;
  return rows_.size() * sizeof(State) + states_.size() * (sizeof(StateData) + entry) +
         stacks_.size() * (sizeof(StackData) + entry) + 2 * items_ * sizeof(Item) + merged_.size() * entry;
}

AutomatonStates::State AutomatonStates::step(State state, std::uint8_t byte, std::size_t place) {
  Items reached;
  for (const Item item : states_[static_cast<std::size_t>(state)].items) {
    const auto edges = automaton_->edges(position_of(item));
    spend(1 + edges.size());
    for (const ByteAutomaton::Edge& edge : edges) {
      if (edge.first <= byte && byte <= edge.last) {
        reached.push_back(item_of(edge.target, stack_of(item)));
      }
    }
  }
  const State next = reached.empty() ? dead : expand(std::move(reached));
  rows_[place] = next;
  return next;
}

AutomatonStates::State AutomatonStates::expand(Items reached) {
  bool accepts = false;
  pop(reached, accepts);
  merge_equal_positions(reached);
  Items items = reached;
  call(reached, items);
  return intern_state(std::move(items), accepts);
}

/// Adds the places after every rule that may be complete, and removes from `reached` the places without edges and calls.
void AutomatonStates::pop(Items& reached, bool& accepts) {
  std::sort(reached.begin(), reached.end());
  reached.erase(std::unique(reached.begin(), reached.end()), reached.end());
  // Usually a state has few positions, and none was reached twice.
  std::map<Item, bool> seen;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const Item item = reached[i];
    if (!automaton_->accepts(position_of(item))) {
      continue;
    }
    const StackData& stack = stacks_[static_cast<std::size_t>(stack_of(item))];
    spend(stack.returns.size());
    for (const Item after : stack.returns) {
      if (position_of(after) == ByteAutomaton::end_of_text) {
        accepts = true;
      } else if (seen.try_emplace(after, true).second) {
        reached.push_back(after);
      }
    }
  }
  std::erase_if(reached, [&](Item item) {
    const std::int32_t position = position_of(item);
    return automaton_->edges(position).empty() && automaton_->calls(position).empty();
  });
}

/// Adds the entries of the rules that are called in `reached`. Each rule is called once, for all its callers together.
void AutomatonStates::call(const Items& reached, Items& items) {
  std::map<std::int32_t, Items> callers;  // returns by rule; rules call only later ones: the first list is complete
  const auto add_calls = [&](Item item) {
    for (const ByteAutomaton::Call& called : automaton_->calls(position_of(item))) {
      Items& returns = callers[called.rule];
      if (called.target == ByteAutomaton::end_of_rule) {
        // A tail call: the called rule returns to where the caller returns, and no stack grows.
        const Items& outer = stacks_[static_cast<std::size_t>(stack_of(item))].returns;
        returns.insert(returns.end(), outer.begin(), outer.end());
        spend(outer.size());
      } else {
        returns.push_back(item_of(called.target, stack_of(item)));
      }
      spend(1);
    }
  };
  for (const Item item : reached) {
    add_calls(item);
  }
  while (!callers.empty()) {
    auto first = callers.extract(callers.begin());
    const Stack stack = intern_stack(std::move(first.mapped()));
    const std::int32_t entry = automaton_->entry(first.key());
    if (entry != ByteAutomaton::end_of_rule) {
      items.push_back(item_of(entry, stack));
      add_calls(items.back());
    }
  }
  merge_equal_positions(items);
  // Removes positions that only have calls, which were added above.
  std::erase_if(items, [&](Item item) { return automaton_->edges(position_of(item)).empty(); });
}

void AutomatonStates::merge_equal_positions(Items& items) {
  std::sort(items.begin(), items.end());
  std::size_t kept = 0;
  for (const Item item : items) {
    if (kept > 0 && position_of(items[kept - 1]) == position_of(item)) {
      items[kept - 1] = item_of(position_of(item), merge(stack_of(items[kept - 1]), stack_of(item)));
    } else {
      items[kept++] = item;
    }
  }
  items.resize(kept);
}

AutomatonStates::Stack AutomatonStates::intern_stack(Items returns) {
  merge_equal_positions(returns);
  const auto found = stack_numbers_.find(returns);
  if (found != stack_numbers_.end()) {
    return found->second;
  }
  spend(10 + returns.size());
  StackData stack{std::move(returns), 0};
  for (const Item item : stack.returns) {
    stack.depth = std::max(stack.depth, 1 + stacks_[static_cast<std::size_t>(stack_of(item))].depth);
  }
  if (stack.depth > deepest_stack) {
    throw Error("grammar: the text is nested deeper than " + std::to_string(deepest_stack) + " rules");
  }
  const auto number = static_cast<Stack>(stacks_.size());
  items_ += stack.returns.size();
  stack_numbers_.emplace(stack.returns, number);
  stacks_.push_back(std::move(stack));
  return number;
}

/// A stack with the returns of both.
AutomatonStates::Stack AutomatonStates::merge(Stack a, Stack b) {
  if (a == b) {
    return a;
  }
  const std::uint64_t key = static_cast<std::uint64_t>(std::min(a, b)) << 32 | static_cast<std::uint32_t>(std::max(a, b));
  const auto known = merged_.find(key);
  if (known != merged_.end()) {
    return known->second;
  }
  Items both = stacks_[static_cast<std::size_t>(a)].returns;
  const Items& second = stacks_[static_cast<std::size_t>(b)].returns;
  spend(10 + both.size() + second.size());
  both.insert(both.end(), second.begin(), second.end());
  const Stack stack = intern_stack(std::move(both));
  merged_.emplace(key, stack);
  return stack;
}

AutomatonStates::State AutomatonStates::intern_state(Items items, bool accepts) {
  spend(20 + items.size());
  Items key = items;
  key.push_back(accepts ? 1 : 0);
  const auto [found, is_new] = state_numbers_.try_emplace(std::move(key), static_cast<State>(states_.size()));
  if (is_new) {
    std::uint8_t plain_steps = 0;
    for (const Item item : items) {
      plain_steps = std::max(plain_steps, automaton_->plain_steps(position_of(item)));
    }
    items_ += items.size();
    states_.push_back({std::move(items), accepts, plain_steps});
    rows_.resize(rows_.size() + num_classes_, states_.size() == 1 ? dead : -1);
  }
  return found->second;
}

void AutomatonStates::drop_unused(std::span<State* const> used) {
  spend(stacks_.size() + items_ / 4 + used.size());
  const std::uint64_t work = work_, most_work = most_work_;
  constexpr Stack unknown = -1;
  std::vector<Stack> new_stacks(stacks_.size(), unknown);
  new_stacks[bottom] = bottom;
  // A stack has a higher number than the stacks in it.
  std::vector<bool> needed(stacks_.size(), false);
  const auto need = [&](State state) {
    for (const Item item : states_[static_cast<std::size_t>(state)].items) {
      needed[static_cast<std::size_t>(stack_of(item))] = true;
    }
  };
  need(start_);
  std::ranges::for_each(used, [&](const State* state) { need(*state); });
  for (std::size_t stack = stacks_.size(); stack-- > 1;) {
    for (const Item item : stacks_[stack].returns) {
      needed[static_cast<std::size_t>(stack_of(item))] = needed[static_cast<std::size_t>(stack_of(item))] || needed[stack];
    }
  }
  AutomatonStates fresh(*this, Empty{});
  const auto renumber = [&](Items items) {
    for (Item& item : items) {
      item = item_of(position_of(item), new_stacks[static_cast<std::size_t>(stack_of(item))]);
    }
    return items;
  };
  for (std::size_t stack = 1; stack < stacks_.size(); ++stack) {
    if (needed[stack]) {
      new_stacks[stack] = fresh.intern_stack(renumber(stacks_[stack].returns));
    }
  }
  const auto keep = [&](State state) {
    const StateData& data = states_[static_cast<std::size_t>(state)];
    return state == dead ? dead : fresh.intern_state(renumber(data.items), data.accepts);
  };
  fresh.start_ = keep(start_);
  for (State* state : used) {
    *state = keep(*state);
  }
  *this = std::move(fresh);
  work_ = work;
  most_work_ = most_work;
}

}  // namespace rocmforge
