#include "grammar/byte_graph.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "grammar/utf8_ranges.h"

namespace rocmforge {
namespace {

using Kind = GrammarExpression::Kind;

constexpr std::size_t most_nodes = 250'000, most_pieces = 2'000'000;
// A repeated piece of more than largest_repeated expressions becomes a rule, so that each repetition costs one position. A
// rule of at most largest_inlined expressions that calls no rule is inlined.
constexpr std::size_t largest_repeated = 8, largest_inlined = 12;

bool holds_plain_characters(std::span<const CodeRange> ranges) {
  // The ranges are joined, so each of the few plain ones lies in a single range or not at all.
  return std::all_of(
      ByteAutomaton::plain_characters().begin(), ByteAutomaton::plain_characters().end(), [&](const CodeRange& plain) {
        return std::any_of(ranges.begin(), ranges.end(),
                           [&](const CodeRange& range) { return range.first <= plain.first && plain.last <= range.last; });
      });
}

/// Writes the graph from left to right: `from_` is the node that has been reached, and a stack holds the remaining tasks, so
/// that nothing recurses however deep the grammar nests.
class ByteGraphBuilder {
 public:
  ByteGraphBuilder(const Grammar& grammar, WorkBudget& budget)
      : grammar_(grammar),
        budget_(budget),
        nullable_(expressions_that_derive(grammar, Derivation::empty, budget)),
        rule_of_name_(grammar.rules.size(), -1) {
    measure();
  }

  ByteGraph build() {
    graph_.root = named_rule(grammar_.root);
    for (std::size_t rule = 0; rule < graph_.rules.size(); ++rule) {
      if (graph_.rules[rule].body >= 0) {
        name_ = graph_.rules[rule].name;
        from_ = graph_.rules[rule].entry;
        tasks_.push_back({Task::Kind::compile, graph_.rules[rule].body});
        run_tasks();
        graph_.rules[rule].exit = from_;
        node(from_).accepts = true;
      }
    }
    return std::move(graph_);
  }

 private:
  using CodeKey = std::vector<std::pair<char32_t, char32_t>>;

  struct Task {
    enum class Kind : std::uint8_t {
      compile,  ///< goes on through expression `number`
      call,     ///< goes on through rule `number`
      copy,     ///< goes on through one copy of what expression `number`, a repetition, repeats
      repeat,   ///< makes `count` more copies; where there is an `end`, each may be the last
      join,     ///< node `number` is reached from here without a byte
      move,     ///< goes on from node `number`
    };
    Kind kind;
    std::int32_t number = 0;
    std::uint32_t count = 0;
    std::int32_t end = -1;
  };

  /// Computes the size of each expression, and whether it can be inlined.
  void measure() {
    constexpr std::uint32_t most = std::numeric_limits<std::uint32_t>::max() / 2;
    const std::size_t count = grammar_.expressions.size();
    budget_.spend(2 * count);
    sizes_.resize(count);
    is_leaf_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const GrammarExpression& one = grammar_.expressions[i];
      const bool has_parts = Grammar::has_parts(one);
      const bool has_length = one.kind == Kind::literal || one.kind == Kind::characters;
      std::uint32_t size = 1 + (has_length ? one.count / 4 : one.kind == Kind::automaton ? one.count : 0);
      bool leaf = one.kind != Kind::reference && one.kind != Kind::automaton &&
                  (one.kind != Kind::repeat ||
                   (one.minimum <= 4 && (one.maximum == GrammarExpression::unbounded || one.maximum <= 4)));
      if (has_parts) {
        for (const std::int32_t part : grammar_.parts_of(one)) {
          size = std::min(most, size + sizes_[static_cast<std::size_t>(part)]);
          leaf = leaf && is_leaf_[static_cast<std::size_t>(part)];
        }
      }
      sizes_[i] = size;
      is_leaf_[i] = leaf;
    }
  }

  void count_piece() {
    budget_.spend(4);
    if (++pieces_ > most_pieces) {
      throw Error("grammar: too large: its repetitions multiply to more than " + std::to_string(most_pieces) + " pieces");
    }
  }

  std::int32_t add_node() {
    if (graph_.nodes.size() == most_nodes) {
      throw Error("grammar: too large: more than " + std::to_string(most_nodes) +
                  " places in a text; use fewer or smaller repetitions");
    }
    budget_.spend(8);
    graph_.nodes.emplace_back();
    return static_cast<std::int32_t>(graph_.nodes.size()) - 1;
  }
  ByteGraph::Node& node(std::int32_t number) { return graph_.nodes[static_cast<std::size_t>(number)]; }

  std::int32_t add_rule(std::int32_t body, std::int32_t name) {
    const std::int32_t entry = add_node();
    graph_.rules.push_back({body, name, body >= 0 && nullable_[static_cast<std::size_t>(body)], entry, -1});
    return static_cast<std::int32_t>(graph_.rules.size()) - 1;
  }

  std::int32_t named_rule(std::int32_t rule) {
    const auto index = static_cast<std::size_t>(rule);
    if (rule_of_name_[index] < 0) {
      rule_of_name_[index] = add_rule(grammar_.rules[index].body, rule);
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
    const std::int32_t rule = add_rule(-1, -1);
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

  void compile_characters(std::span<const CodeRange> ranges) {
    budget_.spend(8 * ranges.size());
    const std::int32_t to = add_node();
    std::vector<CodeRange> beyond_ascii;
    for (const CodeRange& range : ranges) {
      if (range.first < 0x80) {
        node(from_).edges.push_back(
            {static_cast<std::uint8_t>(range.first), static_cast<std::uint8_t>(std::min<char32_t>(range.last, 0x7F)), to});
      }
      if (range.last >= 0x80) {
        beyond_ascii.push_back({std::max<char32_t>(range.first, 0x80), range.last});
      }
    }
    if (!beyond_ascii.empty()) {
      const std::int32_t rule = character_rule(beyond_ascii);
      node(from_).calls.push_back({rule, to});
    }
    if (holds_plain_characters(ranges)) {
      node(from_).plain.push_back(to);
    }
    from_ = to;
  }

  void call(std::int32_t rule) {
    const std::int32_t to = add_node();
    node(from_).calls.push_back({rule, to});
    from_ = to;
  }

  void compile_reference(std::int32_t rule) {
    const std::int32_t body = grammar_.rules[static_cast<std::size_t>(rule)].body;
    if (is_leaf_[static_cast<std::size_t>(body)] && sizes_[static_cast<std::size_t>(body)] <= largest_inlined) {
      tasks_.push_back({Task::Kind::compile, body});
    } else {
      call(named_rule(rule));
    }
  }

  /// What one copy of a repetition consists of: a choice of tasks. Large pieces become rules of their own. Small
  /// alternatives are not made rules, because most repetitions hold a class of characters beside longer escapes.
  const std::vector<Task>& pieces_of(std::int32_t repeat) {
    const auto [found, is_new] = copies_.try_emplace(repeat);
    std::vector<Task>& pieces = found->second;
    if (!is_new) {
      return pieces;
    }
    const GrammarExpression& one = grammar_.at(repeat);
    const std::int32_t body = grammar_.parts_of(one).front();
    const bool loops = one.maximum == GrammarExpression::unbounded;
    const std::uint32_t copies = loops ? one.minimum + 1 : one.maximum;
    if (copies <= 2 || sizes_[static_cast<std::size_t>(body)] <= largest_repeated) {
      pieces.push_back({Task::Kind::compile, body});
      return pieces;
    }
    const auto add = [&](std::int32_t part) {
      const bool is_small = sizes_[static_cast<std::size_t>(part)] <= largest_repeated / 2;
      pieces.push_back(is_small ? Task{Task::Kind::compile, part} : Task{Task::Kind::call, add_rule(part, name_)});
    };
    if (grammar_.at(body).kind == Kind::choice && grammar_.at(body).count <= largest_repeated) {
      std::ranges::for_each(grammar_.parts_of(grammar_.at(body)), add);
    } else {
      add(body);
    }
    return pieces;
  }

  void copy(std::int32_t repeat) {
    const std::vector<Task>& pieces = pieces_of(repeat);
    if (pieces.size() == 1) {
      tasks_.push_back(pieces.front());
      return;
    }
    const std::int32_t to = add_node();
    tasks_.push_back({Task::Kind::move, to});
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
      tasks_.push_back({Task::Kind::join, to});
      tasks_.push_back(*piece);
      tasks_.push_back({Task::Kind::move, from_});
    }
  }

  /// The copies that must come, then those that may.
  void compile_repeat(std::int32_t number) {
    const GrammarExpression& repeat = grammar_.at(number);
    const std::int32_t end = add_node();
    tasks_.push_back({Task::Kind::move, end});
    tasks_.push_back({Task::Kind::join, end});
    if (repeat.maximum == GrammarExpression::unbounded) {
      tasks_.push_back({Task::Kind::copy, number});
      tasks_.push_back({Task::Kind::move, end});
      tasks_.push_back({Task::Kind::join, end});
    } else {
      tasks_.push_back({Task::Kind::repeat, number, repeat.maximum - repeat.minimum, end});
    }
    tasks_.push_back({Task::Kind::repeat, number, repeat.minimum});
  }

  void add_copies(Task task) {
    if (task.count == 0) {
      return;
    }
    count_piece();
    if (task.end >= 0) {
      node(from_).empty.push_back(task.end);
    }
    --task.count;
    tasks_.push_back(task);
    tasks_.push_back({Task::Kind::copy, task.number});
  }

  /// Literals share their prefixes, so that a choice of thousands of literals has few edges at each node.
  void compile_choice(std::span<const std::int32_t> parts) {
    const std::int32_t start = from_, to = add_node();
    std::map<std::pair<std::int32_t, char>, std::int32_t> literals;  // the node after a byte at a node
    tasks_.push_back({Task::Kind::move, to});
    for (const std::int32_t part : parts) {
      if (grammar_.at(part).kind != Kind::literal) {
        tasks_.push_back({Task::Kind::join, to});
        tasks_.push_back({Task::Kind::compile, part});
        tasks_.push_back({Task::Kind::move, start});
        continue;
      }
      count_piece();
      std::int32_t end = start;
      for (const char c : grammar_.text_of(grammar_.at(part))) {
        const auto [place, is_new] = literals.try_emplace({end, c}, -1);
        if (is_new) {
          place->second = add_node();
          node(end).edges.push_back({static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), place->second});
        }
        end = place->second;
      }
      node(end).empty.push_back(to);
    }
  }

  /// A node for each state.
  void compile_automaton(const GrammarExpression& automaton) {
    const std::int32_t to = add_node();
    std::vector<std::int32_t> nodes;
    for (const Grammar::State& state : grammar_.states_of(automaton)) {
      nodes.push_back(add_node());
      if (state.ends) {
        node(nodes.back()).empty.push_back(to);
      }
    }
    node(from_).empty.push_back(nodes.front());
    tasks_.push_back({Task::Kind::move, to});
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (const Grammar::Edge& edge : grammar_.edges_of(grammar_.states_of(automaton)[i])) {
        tasks_.push_back({Task::Kind::join, nodes[edge.target]});
        tasks_.push_back({Task::Kind::compile, edge.part});
        tasks_.push_back({Task::Kind::move, nodes[i]});
      }
    }
  }

  void compile_literal(std::string_view text) {
    for (const char c : text) {
      const std::int32_t to = add_node();
      node(from_).edges.push_back({static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), to});
      from_ = to;
    }
  }

  void compile(std::int32_t number) {
    count_piece();
    const GrammarExpression& expression = grammar_.at(number);
    switch (expression.kind) {
      case Kind::literal:
        return compile_literal(grammar_.text_of(expression));
      case Kind::characters:
        return compile_characters(grammar_.ranges_of(expression));
      case Kind::reference:
        return compile_reference(expression.rule);
      case Kind::sequence:
        for (std::size_t i = expression.count; i-- > 0;) {
          tasks_.push_back({Task::Kind::compile, grammar_.parts_of(expression)[i]});
        }
        return;
      case Kind::choice:
        return compile_choice(grammar_.parts_of(expression));
      case Kind::repeat:
        return compile_repeat(number);
      case Kind::automaton:
        return compile_automaton(expression);
    }
  }

  void run_tasks() {
    while (!tasks_.empty()) {
      const Task task = tasks_.back();
      tasks_.pop_back();
      switch (task.kind) {
        case Task::Kind::compile:
          compile(task.number);
          break;
        case Task::Kind::call:
          call(task.number);
          break;
        case Task::Kind::copy:
          copy(task.number);
          break;
        case Task::Kind::repeat:
          add_copies(task);
          break;
        case Task::Kind::join:
          node(from_).empty.push_back(task.number);
          break;
        case Task::Kind::move:
          from_ = task.number;
          break;
      }
    }
  }

  const Grammar& grammar_;
  WorkBudget& budget_;
  std::vector<bool> nullable_;              // by expression
  std::vector<std::uint32_t> sizes_;        // by expression
  std::vector<bool> is_leaf_;               // by expression
  std::vector<std::int32_t> rule_of_name_;  // by the grammar's rule, -1 while nothing calls it
  ByteGraph graph_;
  std::map<CodeKey, std::int32_t> character_rules_;
  std::map<std::int32_t, std::vector<Task>> copies_;  // by repetition
  std::vector<Task> tasks_;                           // the next task is last
  std::int32_t from_ = -1;
  std::int32_t name_ = -1;  // of the rule that is being compiled
  std::size_t pieces_ = 0;
};

}  // namespace

ByteGraph make_byte_graph(const Grammar& grammar, WorkBudget& budget) { return ByteGraphBuilder(grammar, budget).build(); }

}  // namespace rocmforge
