#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "grammar/byte_automaton.h"
#include "grammar/grammar.h"

namespace rocmforge {

/// A grammar's rules as graphs over bytes, with empty edges (Thompson's construction), from which a ByteAutomaton is made.
struct ByteGraph {
  struct Node {
    std::vector<std::int32_t> empty;
    std::vector<ByteAutomaton::Edge> edges;
    std::vector<ByteAutomaton::Call> calls;
    std::vector<std::int32_t> plain;  ///< reached by any plain character
    bool accepts = false;             ///< the rule may end here
  };
  struct Rule {
    std::int32_t body = -1;  ///< an expression; -1 for a class of characters
    std::int32_t name = -1;  ///< of the grammar's rule that it belongs to: its number; -1 for a class of characters
    bool nullable = false;   ///< it has an empty text
    std::int32_t entry = 0, exit = 0;
  };

  std::deque<Node> nodes;
  std::deque<Rule> rules;  ///< those that the root needs, and pieces of them
  std::int32_t root = 0;
};

/// Throws Error for a grammar that takes too many nodes, or when the budget is spent.
ByteGraph make_byte_graph(const Grammar& grammar, WorkBudget& budget);

}  // namespace rocmforge
