#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/work_budget.h"
#include "grammar/automaton_states.h"
#include "grammar/token_trie.h"

namespace rocmforge {

/// Computes which tokens of a vocabulary may follow a text of a grammar. Serves any number of texts (cursors) in any
/// threads, which share the cached masks. Its memory is bounded: about 12 MiB of automaton states, 8 MiB of masks (at least
/// 16 masks), the automaton, and the grammar.
///
/// Work is counted in units of about ten nanoseconds. One mask may take most_mask_work of them, one byte of a text
/// most_byte_work.
class GrammarMatcher {
 public:
  static constexpr std::uint64_t most_mask_work = 1'000'000, most_byte_work = 200'000;

  /// Throws Error for a grammar that exceeds a limit (docs/grammars.md) or is left-recursive, and the exceptions of
  /// WorkBudget.
  static std::shared_ptr<GrammarMatcher> create(Grammar grammar, std::shared_ptr<const TokenTrie> trie, WorkBudget& budget);
  /// With a budget of grammar_compile_units.
  static std::shared_ptr<GrammarMatcher> create(Grammar grammar, std::shared_ptr<const TokenTrie> trie);

  /// A position in one text of the grammar. Calls throw Error when the grammar's limits are exceeded.
  class Cursor {
   public:
    explicit Cursor(std::shared_ptr<GrammarMatcher> matcher);
    Cursor(const Cursor& other);
    /// Goes to the position of a cursor of the same matcher. work() stays.
    Cursor& operator=(const Cursor& other);
    ~Cursor();

    /// Sets the bits of all tokens whose bytes may follow and, where the text may end, of all tokens that end it; clears all
    /// others. `mask` may be longer than the vocabulary needs. Takes about `units` of work; false when more is needed: the
    /// next call continues.
    bool allowed_within(std::uint64_t units, std::span<std::uint32_t> mask);
    /// Whether `bytes` may follow; advances if they may.
    bool accept(std::string_view bytes);
    [[nodiscard]] bool may_end() const;
    /// Whether only the end may follow.
    [[nodiscard]] bool at_end() const;
    /// Units that the calls have used.
    [[nodiscard]] std::uint64_t work() const { return work_; }

   private:
    std::shared_ptr<GrammarMatcher> matcher_;
    std::size_t slot_;
    std::uint64_t work_ = 0;
  };

  [[nodiscard]] const Grammar& grammar() const { return grammar_; }
  [[nodiscard]] const std::shared_ptr<const TokenTrie>& trie() const { return trie_; }
  /// Its current size in bytes, within about a tenth; without the vocabulary's trie.
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  using State = AutomatonStates::State;
  using Mask = std::vector<std::uint32_t>;
  /// An incomplete mask: the position of a walk over the trie's two parts.
  struct Walk {
    Mask mask;
    std::vector<State> path;  ///< the state before each byte of the current token
    std::size_t part = 0;
    std::uint32_t node = 0;
    std::uint64_t work = 0;
  };
  /// The state of a cursor.
  struct Slot {
    State state = AutomatonStates::dead;
    std::unique_ptr<Walk> walk{};
  };

  GrammarMatcher(Grammar grammar, std::shared_ptr<const TokenTrie> trie, WorkBudget& budget);
  [[nodiscard]] const TokenTrie::Part& part(std::size_t number) const {
    return number == 0 ? trie_->plain() : trie_->other();
  }
  const Mask* find_mask(State state);
  const Mask* mask_of(Slot& slot, std::uint64_t units);
  [[nodiscard]] std::unique_ptr<Walk> begin_walk(State state) const;
  bool go_on(Walk& walk, std::uint64_t end_of_work);
  const Mask& keep_mask(State state, Mask mask);
  void make_room();
  std::size_t open_slot(State state);

  Grammar grammar_;
  std::shared_ptr<const TokenTrie> trie_;
  std::size_t automaton_bytes_ = 0;
  mutable std::mutex mutex_;  // guards the members below
  AutomatonStates states_;
  std::vector<Slot> slots_;  // of the cursors, dead where free
  std::vector<std::size_t> free_slots_;
  std::list<std::pair<State, Mask>> masks_;  // latest use first
  std::unordered_map<State, std::list<std::pair<State, Mask>>::iterator> mask_of_state_;
};

}  // namespace rocmforge
