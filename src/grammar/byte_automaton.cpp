#include "grammar/byte_automaton.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/error.h"
#include "grammar/byte_graph.h"

namespace rocmforge {
namespace {

constexpr std::size_t most_edges = 2'000'000;

}  // namespace

const std::vector<CodeRange>& ByteAutomaton::plain_characters() {
  static const std::vector<CodeRange> plain = normalize({{U' ', U'!'}, {U'#', U'['}, {U']', 0x7E}, {0x80, 0x10FFFF}});
  return plain;
}

/// Turns a graph into positions without empty edges.
class ByteAutomatonBuilder {
 public:
  ByteAutomatonBuilder(const Grammar& grammar, WorkBudget& budget, ByteAutomaton& automaton)
      : grammar_(grammar), budget_(budget), graph_(make_byte_graph(grammar, budget)), automaton_(automaton) {}

  void build() {
    add_positions();
    order_rules();
    write();
    sort_bytes();
    count_plain_steps();
  }

 private:
  /// The edges and calls that can follow a node through its empty edges and the empty texts of called rules.
  ByteGraph::Node gather(std::int32_t start) {
    ByteGraph::Node all;
    std::vector<std::int32_t> pending{start};
    ++stamp_;
    stamps_.resize(graph_.nodes.size(), 0);
    while (!pending.empty()) {
      const std::int32_t number = pending.back();
      pending.pop_back();
      if (std::exchange(stamps_[static_cast<std::size_t>(number)], stamp_) == stamp_) {
        continue;
      }
      const ByteGraph::Node& one = graph_.nodes[static_cast<std::size_t>(number)];
      budget_.spend(4 + one.edges.size() + one.calls.size() + one.empty.size());
      all.accepts = all.accepts || one.accepts;
      all.edges.insert(all.edges.end(), one.edges.begin(), one.edges.end());
      all.calls.insert(all.calls.end(), one.calls.begin(), one.calls.end());
      all.plain.insert(all.plain.end(), one.plain.begin(), one.plain.end());
      pending.insert(pending.end(), one.empty.begin(), one.empty.end());
      for (const ByteAutomaton::Call& call : one.calls) {
        if (graph_.rules[static_cast<std::size_t>(call.rule)].nullable) {
          pending.push_back(call.target);
        }
      }
    }
    gathered_ += all.edges.size() + all.calls.size();
    if (gathered_ > most_edges) {
      throw Error("grammar: too large: more than " + std::to_string(most_edges) +
                  " ways on; too many pieces in a row may be left out");
    }
    return all;
  }

  /// The position of a node; targets in it are still nodes.
  std::int32_t position(std::int32_t number) {
    std::int32_t& place = position_of_node_[static_cast<std::size_t>(number)];
    if (place < 0) {
      ByteGraph::Node all = gather(number);
      if (all.edges.empty() && all.calls.empty()) {
        place = ByteAutomaton::end_of_rule;
      } else {
        place = static_cast<std::int32_t>(positions_.size());
        positions_.push_back(std::move(all));
      }
    }
    return place;
  }

  void add_positions() {
    position_of_node_.assign(graph_.nodes.size(), -1);
    positions_.resize(2);
    positions_[ByteAutomaton::end_of_rule].accepts = true;
    for (ByteGraph::Rule& rule : graph_.rules) {
      rule.entry = position(rule.entry);
    }
    for (std::size_t i = 0; i < positions_.size(); ++i) {
      for (std::size_t j = 0; j < positions_[i].edges.size(); ++j) {
        const std::int32_t target = position(positions_[i].edges[j].target);
        positions_[i].edges[j].target = target;
      }
      for (std::size_t j = 0; j < positions_[i].calls.size(); ++j) {
        const std::int32_t target = position(positions_[i].calls[j].target);
        positions_[i].calls[j].target = target;
      }
      for (std::int32_t& target : positions_[i].plain) {
        target = position_of_node_[static_cast<std::size_t>(target)];
      }
    }
  }

  /// Numbers the rules so that each calls at its beginning only later ones; a cycle is left recursion.
  void order_rules() {
    enum : char { unseen, open, done };
    std::vector<char> state(graph_.rules.size(), unseen);
    struct Frame {
      std::int32_t rule;
      std::size_t next;
    };
    std::vector<Frame> path;
    std::int32_t number = static_cast<std::int32_t>(graph_.rules.size());
    order_.assign(graph_.rules.size(), -1);
    for (std::int32_t start = 0; start < static_cast<std::int32_t>(graph_.rules.size()); ++start) {
      if (state[static_cast<std::size_t>(start)] != unseen) {
        continue;
      }
      state[static_cast<std::size_t>(start)] = open;
      path.push_back({start, 0});
      while (!path.empty()) {
        Frame& top = path.back();
        const auto& calls =
            positions_[static_cast<std::size_t>(graph_.rules[static_cast<std::size_t>(top.rule)].entry)].calls;
        if (top.next == calls.size()) {
          order_[static_cast<std::size_t>(top.rule)] = --number;
          state[static_cast<std::size_t>(top.rule)] = done;
          path.pop_back();
          continue;
        }
        const std::int32_t called = calls[top.next++].rule;
        char& called_state = state[static_cast<std::size_t>(called)];
        if (called_state == open) {
          std::vector<std::int32_t> circle;
          for (const Frame& frame : path) {
            circle.push_back(frame.rule);
          }
          fail_recursion(circle, called);
        }
        if (called_state == unseen) {
          called_state = open;
          path.push_back({called, 0});
        }
      }
    }
  }

  /// The part of a rule's name that a message shows.
  [[nodiscard]] std::string name_of(std::int32_t rule) const {
    const std::int32_t named = graph_.rules[static_cast<std::size_t>(rule)].name;
    return named < 0 ? "a class of characters" : grammar_.rules[static_cast<std::size_t>(named)].name.substr(0, 60);
  }

  [[noreturn]] void fail_recursion(const std::vector<std::int32_t>& path, std::int32_t called) const {
    const auto begin = std::find(path.begin(), path.end(), called);
    const std::string name = name_of(called);
    std::string way = name, last = name;
    for (auto rule = begin + 1; rule < path.end(); ++rule) {
      const std::string next = name_of(*rule);
      if (next != last && way.size() < 200) {
        way += " -> " + next;
      }
      last = next;
    }
    throw Error("grammar: rule '" + name + "' is left-recursive (" + way + " -> " + name +
                "): it can begin with itself; put what is repeated first, or use '*' or '+'");
  }

  void write() {
    automaton_.entries_.resize(graph_.rules.size());
    for (std::size_t rule = 0; rule < graph_.rules.size(); ++rule) {
      automaton_.entries_[static_cast<std::size_t>(order_[rule])] = graph_.rules[rule].entry;
    }
    automaton_.root_ = order_[static_cast<std::size_t>(graph_.root)];
    for (const ByteGraph::Node& position : positions_) {
      automaton_.positions_.push_back({static_cast<std::uint32_t>(automaton_.edges_.size()),
                                       static_cast<std::uint32_t>(automaton_.calls_.size()), position.accepts, 0});
      automaton_.edges_.insert(automaton_.edges_.end(), position.edges.begin(), position.edges.end());
      const auto first = automaton_.calls_.size();
      for (const ByteAutomaton::Call& call : position.calls) {
        automaton_.calls_.push_back({order_[static_cast<std::size_t>(call.rule)], call.target});
      }
      std::sort(automaton_.calls_.begin() + static_cast<std::ptrdiff_t>(first), automaton_.calls_.end(),
                [](const auto& a, const auto& b) { return a.rule < b.rule; });
    }
    automaton_.positions_.push_back({static_cast<std::uint32_t>(automaton_.edges_.size()),
                                     static_cast<std::uint32_t>(automaton_.calls_.size()), false, 0});
  }

  /// Bytes between which no edge begins or ends are of one class.
  void sort_bytes() {
    std::array<bool, 257> begins{};
    for (const ByteAutomaton::Edge& edge : automaton_.edges_) {
      begins[edge.first] = begins[std::size_t{edge.last} + 1] = true;
    }
    for (std::size_t byte = 1; byte < 256; ++byte) {
      automaton_.classes_[byte] = static_cast<std::uint8_t>(automaton_.classes_[byte - 1] + (begins[byte] ? 1 : 0));
    }
  }

  /// Starts with the largest count everywhere. After n rounds every chain that ends within n steps has the right count.
  void count_plain_steps() {
    auto& positions = automaton_.positions_;
    for (auto& position : positions) {
      position.plain_steps = ByteAutomaton::most_plain_steps;
    }
    std::vector<std::int32_t> order;
    for (auto entry = automaton_.entries_.rbegin(); entry != automaton_.entries_.rend(); ++entry) {
      order.push_back(*entry);  // called before caller
    }
    for (std::int32_t i = 0; i < automaton_.size(); ++i) {
      order.push_back(i);
    }
    for (int round = 0; round <= ByteAutomaton::most_plain_steps; ++round) {
      budget_.spend(order.size() + automaton_.calls_.size());
      for (const std::int32_t number : order) {
        int steps = 0;
        for (const std::int32_t target : positions_[static_cast<std::size_t>(number)].plain) {
          steps = std::max(steps, 1 + positions[static_cast<std::size_t>(target)].plain_steps);
        }
        for (const ByteAutomaton::Call& call : automaton_.calls(number)) {
          steps = std::max<int>(steps, positions[static_cast<std::size_t>(automaton_.entry(call.rule))].plain_steps);
        }
        positions[static_cast<std::size_t>(number)].plain_steps =
            static_cast<std::uint8_t>(std::min<int>(steps, ByteAutomaton::most_plain_steps));
      }
    }
  }

  const Grammar& grammar_;
  WorkBudget& budget_;
  ByteGraph graph_;
  ByteAutomaton& automaton_;
  std::size_t gathered_ = 0;
  std::vector<std::int32_t> position_of_node_;
  std::vector<std::uint32_t> stamps_;
  std::uint32_t stamp_ = 0;
  std::vector<ByteGraph::Node> positions_;
  std::vector<std::int32_t> order_;  // by rule
};

ByteAutomaton::ByteAutomaton(const Grammar& grammar, WorkBudget& budget) {
  ByteAutomatonBuilder(grammar, budget, *this).build();
}

}  // namespace rocmforge
