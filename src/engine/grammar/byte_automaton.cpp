#include "engine/grammar/byte_automaton.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "engine/grammar/utf8_ranges.h"

namespace rocmforge {
namespace {

using Kind = GrammarExpression::Kind;

constexpr std::size_t most_positions = 250'000, most_edges = 4'000'000, most_pieces = 2'000'000;
// A repeated piece of more expressions becomes a rule of its own, so that each repetition costs one position; a rule of at
// most so many that calls none is put in the place of its name, which saves the calls.
constexpr std::size_t largest_repeated = 8, largest_inlined = 12;

std::size_t count_expressions(const GrammarExpression& expression) {
  std::size_t count = 1 + expression.text.size() / 4;
  for (const GrammarExpression& part : expression.parts) {
    count += count_expressions(part);
  }
  return count;
}

bool is_leaf(const GrammarExpression& expression) {
  return expression.kind != Kind::reference && (expression.kind != Kind::repeat || expression.minimum <= 4) &&
         (expression.kind != Kind::repeat || expression.maximum == GrammarExpression::unbounded ||
          expression.maximum <= 4) &&
         std::all_of(expression.parts.begin(), expression.parts.end(), is_leaf);
}

bool holds_plain_characters(const std::vector<CodeRange>& ranges) {
  // The ranges are joined, so each of the few plain ones lies in a single range or not at all.
  return std::all_of(
      ByteAutomaton::plain_characters().begin(), ByteAutomaton::plain_characters().end(), [&](const CodeRange& plain) {
        return std::any_of(ranges.begin(), ranges.end(),
                           [&](const CodeRange& range) { return range.first <= plain.first && plain.last <= range.last; });
      });
}

}  // namespace

const std::vector<CodeRange>& ByteAutomaton::plain_characters() {
  static const std::vector<CodeRange> plain = normalize({{U' ', U'!'}, {U'#', U'['}, {U']', 0x7E}, {0x80, 0x10FFFF}});
  return plain;
}

/// First a graph with empty edges (Thompson's construction), then positions without them.
class ByteAutomatonBuilder {
 public:
  ByteAutomatonBuilder(const Grammar& grammar, ByteAutomaton& automaton)
      : grammar_(grammar),
        automaton_(automaton),
        nullable_(rules_that_derive(grammar, Derivation::empty)),
        rule_of_name_(grammar.rules.size(), -1) {}

  void build() {
    const std::int32_t root = named_rule(grammar_.root);
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      if (rules_[rule].body != nullptr) {
        name_ = rules_[rule].name;
        rules_[rule].exit = compile(*rules_[rule].body, rules_[rule].entry);
        nodes_[static_cast<std::size_t>(rules_[rule].exit)].accepts = true;
      }
    }
    add_positions();
    order_rules();
    write(root);
    count_plain_steps();
  }

 private:
  struct Node {
    std::vector<std::int32_t> empty;
    std::vector<ByteAutomaton::Edge> edges;
    std::vector<ByteAutomaton::Call> calls;
    std::vector<std::int32_t> plain;  // reached by any plain character
    bool accepts = false;
  };
  struct Rule {
    const GrammarExpression* body = nullptr;  // null: compiled at once
    std::string name;                         // of the grammar's rule that it belongs to
    bool nullable = false;
    std::int32_t entry = 0, exit = 0;
  };
  using CodeKey = std::vector<std::pair<char32_t, char32_t>>;

  std::int32_t add_node() {
    if (nodes_.size() == most_positions) {
      throw Error("grammar: too large: more than " + std::to_string(most_positions) +
                  " places in a text; use fewer or smaller repetitions");
    }
    nodes_.emplace_back();
    return static_cast<std::int32_t>(nodes_.size()) - 1;
  }
  Node& node(std::int32_t number) { return nodes_[static_cast<std::size_t>(number)]; }

  std::int32_t add_rule(const GrammarExpression* body, const std::string& name, bool nullable) {
    const std::int32_t entry = add_node();
    rules_.push_back({body, name, nullable, entry, -1});
    return static_cast<std::int32_t>(rules_.size()) - 1;
  }

  std::int32_t named_rule(std::int32_t rule) {
    const auto index = static_cast<std::size_t>(rule);
    if (rule_of_name_[index] < 0) {
      const Grammar::Rule& source = grammar_.rules[index];
      rule_of_name_[index] = add_rule(&source.body, source.name, nullable_[index]);
    }
    return rule_of_name_[index];
  }

  /// A rule for the characters beyond ASCII of `ranges`, which share their last bytes.
  std::int32_t character_rule(const std::vector<CodeRange>& ranges) {
    CodeKey key;
    for (const CodeRange& range : ranges) {
      key.emplace_back(range.first, range.last);
    }
    const auto [found, is_new] = character_rules_.try_emplace(std::move(key), -1);
    if (!is_new) {
      return found->second;
    }
    const std::int32_t rule = add_rule(nullptr, "a class of characters", false);
    const std::int32_t exit = add_node();
    node(exit).accepts = true;
    rules_.back().exit = exit;
    const std::int32_t entry = rules_.back().entry;
    std::map<std::pair<ByteRange, std::int32_t>, std::int32_t> shared;  // the node whose one edge is this
    for (const std::vector<ByteRange>& sequence : utf8_sequences(ranges)) {
      std::int32_t target = exit;
      for (std::size_t i = sequence.size(); i-- > 1;) {
        const auto [place, is_first] = shared.try_emplace({sequence[i], target}, -1);
        if (is_first) {
          place->second = add_node();
          node(place->second).edges.push_back({sequence[i].first, sequence[i].last, target});
        }
        target = place->second;
      }
      node(entry).edges.push_back({sequence[0].first, sequence[0].last, target});
    }
    found->second = rule;
    return rule;
  }

  std::int32_t compile_characters(const std::vector<CodeRange>& ranges, std::int32_t from) {
    const std::int32_t to = add_node();
    std::vector<CodeRange> beyond_ascii;
    for (const CodeRange& range : ranges) {
      if (range.first < 0x80) {
        node(from).edges.push_back(
            {static_cast<std::uint8_t>(range.first), static_cast<std::uint8_t>(std::min<char32_t>(range.last, 0x7F)), to});
      }
      if (range.last >= 0x80) {
        beyond_ascii.push_back({std::max<char32_t>(range.first, 0x80), range.last});
      }
    }
    if (!beyond_ascii.empty()) {
      const std::int32_t rule = character_rule(beyond_ascii);
      node(from).calls.push_back({rule, to});
    }
    if (holds_plain_characters(ranges)) {
      node(from).plain.push_back(to);
    }
    return to;
  }

  std::int32_t compile_reference(std::int32_t rule, std::int32_t from) {
    const GrammarExpression& body = grammar_.rules[static_cast<std::size_t>(rule)].body;
    if (is_leaf(body) && count_expressions(body) <= largest_inlined) {
      return compile(body, from);
    }
    const std::int32_t called = named_rule(rule);
    return add_call(called, from);
  }

  std::int32_t add_call(std::int32_t rule, std::int32_t from) {
    const std::int32_t to = add_node();
    node(from).calls.push_back({rule, to});
    return to;
  }

  /// An alternative of what is repeated, as a rule where that is set.
  struct Piece {
    const GrammarExpression* body;
    std::int32_t rule;
  };

  /// Small alternatives stay as they are: a class of characters beside longer escapes is what most repetitions hold.
  std::vector<Piece> repeated_pieces(const GrammarExpression& body) {
    std::vector<Piece> pieces;
    const auto add = [&](const GrammarExpression& part) {
      const bool small = count_expressions(part) <= largest_repeated / 2;
      pieces.push_back({&part, small ? -1 : add_rule(&part, name_, derives(part, Derivation::empty, nullable_))});
    };
    if (body.kind == Kind::choice && body.parts.size() <= largest_repeated) {
      std::for_each(body.parts.begin(), body.parts.end(), add);
    } else {
      add(body);
    }
    return pieces;
  }

  std::int32_t compile_pieces(const std::vector<Piece>& pieces, std::int32_t from) {
    const auto one = [&](const Piece& piece) {
      return piece.rule < 0 ? compile(*piece.body, from) : add_call(piece.rule, from);
    };
    if (pieces.size() == 1) {
      return one(pieces.front());
    }
    const std::int32_t to = add_node();
    for (const Piece& piece : pieces) {
      const std::int32_t end = one(piece);
      node(end).empty.push_back(to);
    }
    return to;
  }

  std::int32_t compile_repeat(const GrammarExpression& repeat, std::int32_t from) {
    const GrammarExpression& body = repeat.parts.front();
    const bool loops = repeat.maximum == GrammarExpression::unbounded;
    const std::uint32_t copies = loops ? repeat.minimum + 1 : repeat.maximum;
    const bool small = copies <= 2 || count_expressions(body) <= largest_repeated;
    const std::vector<Piece> pieces = small ? std::vector<Piece>{{&body, -1}} : repeated_pieces(body);
    const auto copy = [&](std::int32_t place) { return compile_pieces(pieces, place); };
    for (std::uint32_t i = 0; i < repeat.minimum; ++i) {
      from = copy(from);
    }
    if (loops) {
      const std::int32_t loop = add_node();
      node(from).empty.push_back(loop);
      const std::int32_t end = copy(loop);
      node(end).empty.push_back(loop);
      return loop;
    }
    const std::int32_t end = add_node();
    for (std::uint32_t i = repeat.minimum; i < repeat.maximum; ++i) {
      node(from).empty.push_back(end);
      from = copy(from);
    }
    node(from).empty.push_back(end);
    return end;
  }

  /// Literals share their beginnings, so that a choice of thousands has few ways on at each place.
  std::int32_t compile_choice(const std::vector<GrammarExpression>& parts, std::int32_t from) {
    const std::int32_t to = add_node();
    std::map<std::pair<std::int32_t, char>, std::int32_t> literals;  // the node after a byte at a node
    for (const GrammarExpression& part : parts) {
      std::int32_t end = from;
      if (part.kind == Kind::literal) {
        for (const char c : part.text) {
          const auto [place, is_new] = literals.try_emplace({end, c}, -1);
          if (is_new) {
            place->second = add_node();
            node(end).edges.push_back({static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), place->second});
          }
          end = place->second;
        }
      } else {
        end = compile(part, from);
      }
      node(end).empty.push_back(to);
    }
    return to;
  }

  /// Adds the ways from the node `from` through `expression`; the node they end in.
  std::int32_t compile(const GrammarExpression& expression, std::int32_t from) {
    if (++pieces_ > most_pieces) {
      throw Error("grammar: too large: its repetitions multiply to more than " + std::to_string(most_pieces) + " pieces");
    }
    switch (expression.kind) {
      case Kind::literal:
        for (const char c : expression.text) {
          const std::int32_t to = add_node();
          node(from).edges.push_back({static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), to});
          from = to;
        }
        return from;
      case Kind::characters:
        return compile_characters(expression.ranges, from);
      case Kind::reference:
        return compile_reference(expression.rule, from);
      case Kind::sequence:
        for (const GrammarExpression& part : expression.parts) {
          from = compile(part, from);
        }
        return from;
      case Kind::choice:
        return compile_choice(expression.parts, from);
      case Kind::repeat:
        return compile_repeat(expression, from);
    }
    return from;
  }

  /// What can be done at a node, through its empty edges and empty texts of called rules.
  Node gather(std::int32_t start) {
    Node all;
    std::vector<std::int32_t> pending{start};
    ++stamp_;
    stamps_.resize(nodes_.size(), 0);
    while (!pending.empty()) {
      const std::int32_t number = pending.back();
      pending.pop_back();
      if (std::exchange(stamps_[static_cast<std::size_t>(number)], stamp_) == stamp_) {
        continue;
      }
      const Node& one = node(number);
      all.accepts = all.accepts || one.accepts;
      all.edges.insert(all.edges.end(), one.edges.begin(), one.edges.end());
      all.calls.insert(all.calls.end(), one.calls.begin(), one.calls.end());
      all.plain.insert(all.plain.end(), one.plain.begin(), one.plain.end());
      pending.insert(pending.end(), one.empty.begin(), one.empty.end());
      for (const ByteAutomaton::Call& call : one.calls) {
        if (rules_[static_cast<std::size_t>(call.rule)].nullable) {
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
      Node all = gather(number);
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
    position_of_node_.assign(nodes_.size(), -1);
    positions_.resize(2);
    positions_[ByteAutomaton::end_of_rule].accepts = true;
    for (Rule& rule : rules_) {
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

  /// Numbers the rules so that each calls at its beginning only later ones; a circle there is left recursion.
  void order_rules() {
    enum : char { unseen, open, done };
    std::vector<char> state(rules_.size(), unseen);
    struct Frame {
      std::int32_t rule;
      std::size_t next;
    };
    std::vector<Frame> path;
    std::int32_t number = static_cast<std::int32_t>(rules_.size());
    order_.assign(rules_.size(), -1);
    for (std::int32_t start = 0; start < static_cast<std::int32_t>(rules_.size()); ++start) {
      if (state[static_cast<std::size_t>(start)] != unseen) {
        continue;
      }
      state[static_cast<std::size_t>(start)] = open;
      path.push_back({start, 0});
      while (!path.empty()) {
        Frame& top = path.back();
        const auto& calls = positions_[static_cast<std::size_t>(rules_[static_cast<std::size_t>(top.rule)].entry)].calls;
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

  [[noreturn]] void fail_recursion(const std::vector<std::int32_t>& path, std::int32_t called) const {
    const auto begin = std::find(path.begin(), path.end(), called);
    const std::string& name = rules_[static_cast<std::size_t>(called)].name;
    std::string way = name, last = name;
    for (auto rule = begin + 1; rule < path.end(); ++rule) {
      const std::string& next = rules_[static_cast<std::size_t>(*rule)].name;
      if (next != last && way.size() < 200) {
        way += " -> " + next;
      }
      last = next;
    }
    throw Error("grammar: rule '" + name + "' is left-recursive (" + way + " -> " + name +
                "): it can begin with itself; put what is repeated first, or use '*' or '+'");
  }

  void write(std::int32_t root) {
    automaton_.entries_.resize(rules_.size());
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      automaton_.entries_[static_cast<std::size_t>(order_[rule])] = rules_[rule].entry;
    }
    automaton_.root_ = order_[static_cast<std::size_t>(root)];
    for (const Node& position : positions_) {
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

  /// Starts from "any number" everywhere; after n rounds every chain that ends within n steps is counted right.
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
  ByteAutomaton& automaton_;
  std::vector<bool> nullable_;              // by the grammar's rule
  std::vector<std::int32_t> rule_of_name_;  // by the grammar's rule, -1 while nothing calls it
  std::deque<Node> nodes_;
  std::deque<Rule> rules_;
  std::map<CodeKey, std::int32_t> character_rules_;
  std::string name_;  // of the rule that is being compiled
  std::size_t pieces_ = 0, gathered_ = 0;
  std::vector<std::int32_t> position_of_node_;
  std::vector<std::uint32_t> stamps_;
  std::uint32_t stamp_ = 0;
  std::vector<Node> positions_;
  std::vector<std::int32_t> order_;  // by rule
};

ByteAutomaton::ByteAutomaton(const Grammar& grammar) { ByteAutomatonBuilder(grammar, *this).build(); }

}  // namespace rocmforge
