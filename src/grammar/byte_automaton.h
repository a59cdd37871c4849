#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "grammar/grammar.h"

namespace rocmforge {

/// A grammar as an automaton over the bytes of UTF-8. A rule is a set of positions joined by edges (one byte each) and calls
/// (a whole text of another rule, then the call's target). Immutable.
class ByteAutomaton {
 public:
  /// Throws Error, with the reason, for a grammar that is left-recursive or takes too many positions, or when the budget is
  /// spent.
  ByteAutomaton(const Grammar& grammar, WorkBudget& budget);

  struct Edge {
    std::uint8_t first = 0, last = 0;  ///< bytes, both included
    std::int32_t target = 0;
  };
  struct Call {
    std::int32_t rule = 0, target = 0;
  };

  /// The place after the root rule's text: no byte can follow.
  static constexpr std::int32_t end_of_text = 0;
  /// The place at the end of a rule from which nothing else is possible.
  static constexpr std::int32_t end_of_rule = 1;
  /// The limit of plain_steps().
  static constexpr std::uint8_t most_plain_steps = 16;
  /// Every character that a JSON string may hold unescaped, without DEL: most of a vocabulary and of most texts.
  static const std::vector<CodeRange>& plain_characters();

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(positions_.size()) - 1; }
  [[nodiscard]] std::int32_t root() const { return root_; }
  [[nodiscard]] std::int32_t rules() const { return static_cast<std::int32_t>(entries_.size()); }
  /// Where a rule begins. A rule calls at its beginning only rules of higher numbers.
  [[nodiscard]] std::int32_t entry(std::int32_t rule) const { return entries_[static_cast<std::size_t>(rule)]; }

  [[nodiscard]] std::span<const Edge> edges(std::int32_t position) const {
    return std::span(edges_).subspan(at(position).edges, at(position + 1).edges - at(position).edges);
  }
  /// Ascending by rule. For a call of a rule with an empty text, the edges behind the call are included as well.
  [[nodiscard]] std::span<const Call> calls(std::int32_t position) const {
    return std::span(calls_).subspan(at(position).calls, at(position + 1).calls - at(position).calls);
  }
  /// Whether the rule may end here.
  [[nodiscard]] bool accepts(std::int32_t position) const { return at(position).accepts; }
  /// A number of plain characters, whichever they are, that may follow. Only characters within this rule are counted.
  [[nodiscard]] std::uint8_t plain_steps(std::int32_t position) const { return at(position).plain_steps; }

  /// The class of a byte. Bytes of one class are on the same edges everywhere.
  [[nodiscard]] std::uint8_t class_of(std::uint8_t byte) const { return classes_[byte]; }
  [[nodiscard]] std::size_t num_classes() const { return std::size_t{classes_.back()} + 1; }

  [[nodiscard]] std::size_t memory_bytes() const {
    return positions_.capacity() * sizeof(Position) + edges_.capacity() * sizeof(Edge) + calls_.capacity() * sizeof(Call) +
           entries_.capacity() * sizeof(std::int32_t);
  }

 private:
  friend class ByteAutomatonBuilder;
  struct Position {
    std::uint32_t edges = 0, calls = 0;  // first of its own; the next position's end them
    bool accepts = false;
    std::uint8_t plain_steps = 0;
  };
  [[nodiscard]] const Position& at(std::int32_t position) const { return positions_[static_cast<std::size_t>(position)]; }

  std::vector<Position> positions_;  // and one behind the last
  std::vector<Edge> edges_;
  std::vector<Call> calls_;
  std::vector<std::int32_t> entries_;
  std::array<std::uint8_t, 256> classes_{};  // ascending
  std::int32_t root_ = 0;
};

}  // namespace rocmforge
