#include "engine/grammar/byte_graph.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "engine/grammar/utf8_ranges.h"

namespace rocmforge {
namespace {

using Kind = GrammarExpression::Kind;

constexpr std::size_t most_nodes = 250'000, most_pieces = 2'000'000;
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

class ByteGraphBuilder {
 public:
  explicit ByteGraphBuilder(const Grammar& grammar)
      : grammar_(grammar),
        nullable_(rules_that_derive(grammar, Derivation::empty)),
        rule_of_name_(grammar.rules.size(), -1) {}

  ByteGraph build() {
    graph_.root = named_rule(grammar_.root);
    for (std::size_t rule = 0; rule < graph_.rules.size(); ++rule) {
      if (graph_.rules[rule].body != nullptr) {
        name_ = graph_.rules[rule].name;
        graph_.rules[rule].exit = compile(*graph_.rules[rule].body, graph_.rules[rule].entry);
        node(graph_.rules[rule].exit).accepts = true;
      }
    }
    return std::move(graph_);
  }

 private:
  using CodeKey = std::vector<std::pair<char32_t, char32_t>>;

  std::int32_t add_node() {
    if (graph_.nodes.size() == most_nodes) {
      throw Error("grammar: too large: more than " + std::to_string(most_nodes) +
                  " places in a text; use fewer or smaller repetitions");
    }
    graph_.nodes.emplace_back();
    return static_cast<std::int32_t>(graph_.nodes.size()) - 1;
  }
  ByteGraph::Node& node(std::int32_t number) { return graph_.nodes[static_cast<std::size_t>(number)]; }

  std::int32_t add_rule(const GrammarExpression* body, const std::string& name, bool nullable) {
    const std::int32_t entry = add_node();
    graph_.rules.push_back({body, name, nullable, entry, -1});
    return static_cast<std::int32_t>(graph_.rules.size()) - 1;
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
    graph_.rules.back().exit = exit;
    const std::int32_t entry = graph_.rules.back().entry;
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

  const Grammar& grammar_;
  std::vector<bool> nullable_;              // by the grammar's rule
  std::vector<std::int32_t> rule_of_name_;  // by the grammar's rule, -1 while nothing calls it
  ByteGraph graph_;
  std::map<CodeKey, std::int32_t> character_rules_;
  std::string name_;  // of the rule that is being compiled
  std::size_t pieces_ = 0;
};

}  // namespace

ByteGraph make_byte_graph(const Grammar& grammar) { return ByteGraphBuilder(grammar).build(); }

}  // namespace rocmforge
