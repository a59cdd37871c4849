#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/grammar/automaton_states.h"
#include "engine/grammar/token_trie.h"

namespace rocmforge {

/// One grammar over one vocabulary: which tokens may follow a text. Serves any number of texts (cursors) from any threads,
/// which share the masks that were computed before. Its memory is bounded: about 20 MB of places and 32 MB of masks.
class GrammarMatcher {
 public:
  /// Throws Error for a bad grammar (docs/grammars.md), with line and column where one is to blame.
  static std::shared_ptr<GrammarMatcher> create(const std::string& gbnf, std::shared_ptr<const TokenTrie> trie);

  /// A place in one text of the grammar. Calls throw Error when the grammar's limits are exceeded.
  class Cursor {
   public:
    explicit Cursor(std::shared_ptr<GrammarMatcher> matcher);
    Cursor(const Cursor& other);
    Cursor& operator=(const Cursor& other) = delete;
    ~Cursor();

    /// Sets the bits of all tokens whose bytes may follow and, where the text may end, of all tokens that end it; clears all
    /// others. `mask` may be longer than the vocabulary needs.
    void allowed(std::span<std::uint32_t> mask) const;
    /// Whether `bytes` may follow; goes on behind them if they may.
    bool accept(std::string_view bytes);
    [[nodiscard]] bool may_end() const;
    /// Nothing but the end may follow.
    [[nodiscard]] bool at_end() const;

   private:
    std::shared_ptr<GrammarMatcher> matcher_;
    std::size_t slot_;
  };

  [[nodiscard]] const std::shared_ptr<const TokenTrie>& trie() const { return trie_; }

 private:
  using State = AutomatonStates::State;
  using Mask = std::vector<std::uint32_t>;

  GrammarMatcher(const std::string& gbnf, std::shared_ptr<const TokenTrie> trie);
  [[nodiscard]] State& state_of(std::size_t slot) { return slots_[slot]; }
  const Mask& mask_of(State& state);
  void walk(const TokenTrie::Part& part, Mask& mask);
  void make_room(std::size_t path_size);
  std::size_t open_slot(State state);

  std::shared_ptr<const TokenTrie> trie_;
  mutable std::mutex mutex_;  // guards all below
  AutomatonStates states_;
  std::vector<State> slots_;  // of the cursors, dead where free
  std::vector<std::size_t> free_slots_;
  std::vector<State> path_;                  // of a walk: the state before each byte
  std::list<std::pair<State, Mask>> masks_;  // latest use first
  std::unordered_map<State, std::list<std::pair<State, Mask>>::iterator> mask_of_state_;
};

}  // namespace rocmforge
