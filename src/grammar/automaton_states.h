#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/byte_automaton.h"

namespace rocmforge {

/// The states of a grammar's automaton, made and numbered when a text first reaches them. A state is a set of positions,
/// each with a stack of the positions to return to after its rule. Stacks are shared as a graph of nodes. If a position is
/// reached in two ways, it is one entry with both stacks merged. So a state is never larger than the automaton, however
/// ambiguous the grammar. Not thread-safe.
class AutomatonStates {
 public:
  /// Throws Error for a grammar whose first state is too ambiguous.
  explicit AutomatonStates(std::shared_ptr<const ByteAutomaton> automaton);

  using State = std::int32_t;
  static constexpr State dead = 0;  ///< no text of the grammar begins with these bytes

  [[nodiscard]] State start() const { return start_; }

  /// The state after one more byte. Throws Error when rules are nested too deeply, or when the work since the last
  /// allow_work() exceeds its limit; the table stays usable.
  State next(State state, std::uint8_t byte) {
    const std::size_t place = static_cast<std::size_t>(state) * num_classes_ + automaton_->class_of(byte);
    return rows_[place] >= 0 ? rows_[place] : step(state, byte, place);
  }

  /// Whether the text may end here.
  [[nodiscard]] bool accepts(State state) const { return states_[static_cast<std::size_t>(state)].accepts; }
  /// Whether no byte may follow.
  [[nodiscard]] bool is_final(State state) const { return states_[static_cast<std::size_t>(state)].items.empty(); }
  /// ByteAutomaton::plain_steps of the state.
  [[nodiscard]] std::uint8_t plain_steps(State state) const { return states_[static_cast<std::size_t>(state)].plain_steps; }

  /// Sets the units of work (about ten nanoseconds each) that may be used from now on before an Error is thrown.
  void allow_work(std::uint64_t units);
  /// Uses `units` of work; throws Error when they exceed the limit.
  void spend(std::uint64_t units);
  /// Units used since the table was made.
  [[nodiscard]] std::uint64_t work() const { return work_; }

  /// Whether so much memory is used that unused states should be dropped.
  [[nodiscard]] bool is_full() const { return memory_bytes() >= most_memory_bytes; }
  /// After drop_unused(): whether so much memory is still used that the next drop would follow soon.
  [[nodiscard]] bool is_crowded() const { return memory_bytes() >= most_memory_bytes / 4 * 3; }
  /// Drops every state that is neither in `used` nor the start, and renumbers the rest, in place in `used`.
  void drop_unused(std::span<State* const> used);

  /// The size of the table, within about a tenth; without the automaton.
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  using Stack = std::int32_t;
  /// A place and its stack, as one number: the place in the upper half.
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
  struct Empty {};

  static constexpr std::size_t most_memory_bytes = std::size_t{12} << 20;
  static constexpr Stack bottom = 0;

  /// A table without any state, for the used ones of `other`.
  AutomatonStates(const AutomatonStates& other, Empty tag);
  void add_fixed();
  State step(State state, std::uint8_t byte, std::size_t place);
  State expand(Items reached);
  void pop(Items& reached, bool& accepts);
  void call(const Items& reached, Items& items);
  Stack intern_stack(Items returns);
  Stack merge(Stack a, Stack b);
  void merge_equal_positions(Items& items);
  State intern_state(Items items, bool accepts);

  std::shared_ptr<const ByteAutomaton> automaton_;
  std::size_t num_classes_;  // of bytes
  State start_ = dead;
  std::vector<StateData> states_;
  std::vector<State> rows_;  // [states, classes of bytes], -1 where not computed yet
  std::vector<StackData> stacks_;
  std::size_t items_ = 0;                                      // of all states and stacks
  std::unordered_map<Items, State, ItemsHash> state_numbers_;  // the items, then whether it accepts
  std::unordered_map<Items, Stack, ItemsHash> stack_numbers_;
  std::unordered_map<std::uint64_t, Stack> merged_;
  std::uint64_t work_ = 0, most_work_ = 0;
};

}  // namespace rocmforge
