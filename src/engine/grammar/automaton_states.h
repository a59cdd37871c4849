#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/grammar/byte_automaton.h"

namespace rocmforge {

/// All places of a grammar where a text may be, made and numbered as they are met. A state is a set of positions, each with
/// what comes after its rule: a stack, shared with all others as a graph of nodes. Two ways to one position are one entry
/// with both continuations, so that a state is never larger than the automaton, however ambiguous the grammar. Not
/// thread-safe.
class AutomatonStates {
 public:
  /// Throws Error for a grammar whose first place is too ambiguous.
  explicit AutomatonStates(std::shared_ptr<const ByteAutomaton> automaton);

  using State = std::int32_t;
  static constexpr State dead = 0;  ///< no text of the grammar begins like this

  [[nodiscard]] State start() const { return start_; }

  /// The place after one more byte. Throws Error when rules are nested too deeply, or when the work since the last
  /// allow_work() exceeds what was allowed; the table stays usable.
  State next(State state, std::uint8_t byte) {
    const State known = rows_[static_cast<std::size_t>(state) * 256 + byte];
    return known >= 0 ? known : step(state, byte);
  }

  /// The text may end here.
  [[nodiscard]] bool accepts(State state) const { return states_[static_cast<std::size_t>(state)].accepts; }
  /// No byte may follow.
  [[nodiscard]] bool is_final(State state) const { return states_[static_cast<std::size_t>(state)].items.empty(); }
  /// ByteAutomaton::plain_steps of the state.
  [[nodiscard]] std::uint8_t plain_steps(State state) const { return states_[static_cast<std::size_t>(state)].plain_steps; }

  /// Units of about ten nanoseconds until next() throws.
  void allow_work(std::uint64_t units) { work_left_ = static_cast<std::int64_t>(units); }

  /// Enough states were met that those not in use should be dropped.
  [[nodiscard]] bool is_full() const { return states_.size() >= most_states || items_ + merged_.size() >= most_items; }
  /// Drops every state that is neither in `used` nor the start, and numbers the rest anew, in place in `used`.
  void drop_unused(std::span<State* const> used);

  [[nodiscard]] std::size_t size() const { return states_.size(); }

 private:
  using Stack = std::int32_t;
  /// A place and what comes after its rule, as one number: place in the upper half.
  using Item = std::uint64_t;
  using Items = std::vector<Item>;
  struct ItemsHash {
    std::size_t operator()(const Items& items) const;
  };
  struct StateData {
    Items items;  // ascending, one for each position
    bool accepts = false;
    std::uint8_t plain_steps = 0;
  };
  struct StackData {
    Items returns;  // ascending, one for each position
    std::int32_t depth = 0;
  };
  struct Expansion;

  static constexpr std::size_t most_states = 16384, most_items = 1 << 20;
  static constexpr Stack bottom = 0;

  State step(State state, std::uint8_t byte);
  State expand(Items reached);
  void pop(Items& reached, bool& accepts);
  void call(const Items& reached, Items& items);
  Stack intern_stack(Items returns);
  Stack merge(Stack a, Stack b);
  void merge_equal_positions(Items& items);
  State intern_state(Items items, bool accepts);
  void spend(std::size_t units);

  std::shared_ptr<const ByteAutomaton> automaton_;
  State start_ = dead;
  std::vector<StateData> states_;
  std::vector<State> rows_;  // [states, 256], -1 where not met yet
  std::vector<StackData> stacks_;
  std::size_t items_ = 0;                                      // of all states and stacks
  std::unordered_map<Items, State, ItemsHash> state_numbers_;  // the items, then whether it accepts
  std::unordered_map<Items, Stack, ItemsHash> stack_numbers_;
  std::unordered_map<std::uint64_t, Stack> merged_;
  std::int64_t work_left_ = 0;
};

}  // namespace rocmforge
