#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/utf8_ranges.h"
#include "grammar_testing.h"

namespace rocmforge {
namespace {

using test::matches;
using test::small_trie;
using testing::HasSubstr;

struct TextsCase {
  std::string grammar;
  std::vector<std::string> inside, outside;
};

TEST(Gbnf, DerivesWhatItsRulesSay) {
  const std::vector<TextsCase> cases = {
      {"root ::= \"abc\"", {"abc"}, {"", "ab", "abcd", "abd"}},
      {"root ::= \"\"", {""}, {"a"}},
      {"root ::=", {""}, {"a"}},
      {"root ::= \"a\" | \"b\" \"c\"\n  | \"d\"", {"a", "bc", "d"}, {"", "b", "ac", "ad"}},
      {"root ::= \"a\" |\n\n  # a comment | \"x\"\n  \"b\"\n\n# more\n", {"a", "b"}, {"x", ""}},
      {"root ::= (\"a\" (\n \"b\" # inside\n | \"c\"\n))+ tail\ntail ::= \"!\"?",
       {"ab", "abac!", "ac"},
       {"", "a", "ab!!", "!"}},
      {"root ::= \"a\"*", {"", "a", "aaaa"}, {"b", "ab"}},
      {"root ::= \"ab\"+ \"a\"?", {"ab", "aba", "abab"}, {"", "a", "abaa"}},
      {"root ::= \"a\"{3}", {"aaa"}, {"", "aa", "aaaa"}},
      {"root ::= \"a\"{2,}", {"aa", "aaaaaa"}, {"", "a"}},
      {"root ::= \"a\"{,2}", {"", "a", "aa"}, {"aaa"}},
      {"root ::= [a-c]{ 1 , 3 }", {"a", "cb", "abc"}, {"", "aaaa", "d"}},
      {"root ::= (\"a\"? \"b\"?){0,3}", {"", "a", "b", "abab", "bbb", "aaa"}, {"bbbb", "aaaaa", "c"}},
      {"root ::= (\"a\"*)*", {"", "aaa"}, {"b"}},
      {"root ::= (\"a\"* | \"b\")+ \"c\"", {"c", "aabac", "bc"}, {"", "a", "cc"}},
      {"root ::= \"a\"* \"b\"* \"a\"", {"a", "aa", "ba", "abba"}, {"", "ab", "aba b"}},
      {"root ::= \"a\"{0}\"b\"", {"b"}, {"ab", ""}},
      {"root ::= \"\\n\\t\\r\\\\\\\"\\x41\\u00e9\\U0001F600\\[\\]\"", {"\n\t\r\\\"A\u00e9\U0001F600[]"}, {"n"}},
      {"root ::= [a\\-z\\]\\x41] [^\\n\"]", {"-\u00e9", "]\U0001F600", "Ab"}, {"bb", "a\n", "a\"", "a"}},
      {"root ::= [-a] [a-] [^^]", {"-aa", "a--", "a-\u20ac"}, {"b-a", "aa^"}},
      {"root ::= . .", {"ab", "\u00e9\n", std::string("\U0010FFFF\0", 5)}, {"a", "abc", "\u00e9"}},
      {"root ::= [\u00e0-\u00ff]+", {"\u00e9", "\u00e0\u00ff"}, {"e", "\u0100", "\u00df"}},
      {"root ::= [\\u0800-\\U00010400]",
       {"\u0800", "\uD7FF", "\uE000", "\U00010000", "\U00010400"},
       {"\u07FF", "\U00010401"}},
      {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", "(()", "())"}},
      {"root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"\"", {"ab", "ac", "aaabcb"}, {"a", "aab", "abb"}},
      {"root ::= e\ne ::= t (\"+\" t)*\nt ::= f (\"*\" f)*\nf ::= \"x\" | \"(\" e \")\"",
       {"x", "x+x*x", "(x+(x))*x"},
       {"", "x+", "(x", "xx"}},
      {"root ::= a-b_2\na-b_2 ::= \"x\"", {"x"}, {"y"}},
      {"root ::= \"x\"\nunused ::= unused \"y\"", {"x"}, {"y"}},
      {"root\t::=\t\"x\"\r\nother ::= \"y\"\r\n", {"x"}, {"y"}},
      {"root ::= list\nlist ::= \"a\" list | \"a\"", {"a", std::string(3000, 'a')}, {""}},
  };
  const auto trie = small_trie();
  for (const TextsCase& one : cases) {
    SCOPED_TRACE(one.grammar);
    const auto matcher = test::matcher_of(one.grammar, trie);
    for (const std::string& text : one.inside) {
      EXPECT_TRUE(matches(matcher, text)) << text;
    }
    for (const std::string& text : one.outside) {
      EXPECT_FALSE(matches(matcher, text)) << text;
    }
  }
}

TEST(Gbnf, SaysWhatIsWrongAndWhere) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "it has no rules"},
      {"# nothing\n", "it has no rules"},
      {"start ::= \"a\"", "no rule 'root'"},
      {"root ::= \"a\"\n\nroot ::= \"b\"", "line 3, column 1: rule 'root' is defined twice"},
      {"root ::= \"a\" missing", "line 1, column 14: rule 'missing' is not defined"},
      {"root ::= \"a", "line 1, column 10: this literal is never closed"},
      {"root ::= \"a\n\"", "column 10: this literal is never closed"},
      {"root ::= [ab", "column 10: this class of characters is never closed"},
      {"root ::= [a-", "never closed"},
      {"root ::= []", "no character is in this class"},
      {"root ::= [\\u0000-\\u0020]\nx ::= [^\\x00-\\U0010FFFF]", "line 2, column 7: no character is in this class"},
      {"root ::= [z-a]", "column 11: the last character of this range comes before its first"},
      {"root ::= \"\u00e9\" )", "line 1, column 14: this ')' closes nothing"},
      {"root ::= (\"a\"", "column 10: this '(' is never closed"},
      {"root ::= *", "nothing stands before this repetition"},
      {"root ::= \"a\"{2,1}", "at most 1 repetitions are fewer than at least 2"},
      {"root ::= \"a\"{", "expected a number of repetitions"},
      {"root ::= \"a\"{1", "expected '}'"},
      {"root ::= \"a\"{100001}", "more than 100000 repetitions"},
      {"root ::= \"a\"{99999999999999999999}", "more than 100000 repetitions"},
      {"root ::= \"a\"*****", "more than 4 repetitions"},
      {"root = \"a\"", "column 6: expected '::='"},
      {"::= \"a\"", "column 1: expected the name of a rule"},
      {"root ::= \"\\q\"", "column 11: unknown escape"},
      {"root ::= \"\\x4\"", "expected 2 hexadecimal digits"},
      {"root ::= \"\\uD800\"", "no Unicode character"},
      {"root ::= \"\\U00110000\"", "no Unicode character"},
      {"root ::= \"\\", "ends inside an escape"},
      {"root ::= <tool>", "tokens in a grammar are not supported"},
      {"root ::= \"a\" ; \"b\"", "expected a literal"},
      {"root ::= \"\xff\"", "column 11: this is not UTF-8"},
      {"root ::= \"a\" root", "line 1: rule 'root' never comes to an end"},
      {"root ::= \"a\" | x\nx ::= \"b\" y\ny ::= x", "rule 'x' never comes to an end"},
      {"root ::= root \"a\" | \"b\"", "rule 'root' is left-recursive (root -> root)"},
      {"root ::= a\na ::= b \"x\" | \"y\"\nb ::= \"\" a | \"z\"", "rule 'a' is left-recursive (a -> b -> a)"},
      {"root ::= n root \"x\" | \"y\"\nn ::= \"n\"?", "left-recursive"},
      {"root ::= (root | \"b\")* \"a\"", "left-recursive"},
  };
  const auto trie = small_trie();
  for (const auto& [grammar, message] : cases) {
    SCOPED_TRACE(grammar);
    try {
      (void)test::matcher_of(grammar, trie);
      ADD_FAILURE() << "expected: " << message;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
      EXPECT_THAT(error.what(), testing::StartsWith("grammar: "));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

TEST(Gbnf, RefusesGrammarsThatWouldTakeTooMuch) {
  const auto repeated = [](const std::string& text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) {
      all += text;
    }
    return all;
  };
  std::string rules = "root ::= r0\n";
  for (int i = 0; i < 30'000; ++i) {
    rules += fmt::format("r{} ::= \"a\"\n", i);
  }
  std::string optional = "root ::= ";
  for (int i = 0; i < 5000; ++i) {
    optional += fmt::format("\"{}\"? ", i);
  }
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"root ::= ((([a-z] [0-9]){1000}){1000}){1000}", "too large"},
      {"root ::= (((\"\"{100000}){100000}){100000}){100000}", "too large"},
      {"root ::= ((\"\"?){100000}){100000}", "too large"},
      {fmt::format("root ::= {}\"a\"{}", repeated("(", 100'000), repeated(")", 100'000)),
       "groups are nested deeper than 200"},
      {fmt::format("root ::= {}", repeated("(", 100'000)), "groups are nested deeper"},
      {rules, "more than 20000 rules"},
      {optional, "too large"},
      {fmt::format("root ::= \"{}\"", std::string(std::size_t{5} << 20, 'a')), "bytes, at most"},
      {fmt::format("root ::= \"{}\"", std::string(std::size_t{1} << 20, 'a')), "too large"},
  };
  const auto trie = small_trie();
  for (const auto& [grammar, message] : cases) {
    SCOPED_TRACE(grammar.substr(0, 60));
    try {
      (void)test::matcher_of(grammar, trie);
      ADD_FAILURE() << "expected: " << message;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
}

/// Computes by backtracking the ends of all texts of `expression` that begin at `start`.
class Recognizer {
 public:
  Recognizer(const Grammar& grammar, std::string text) : grammar_(grammar), text_(std::move(text)) {}
  bool matches() { return ends(body_of(grammar_.root), 0).count(text_.size()) > 0; }

 private:
  using Ends = std::set<std::size_t>;

  const GrammarExpression& body_of(std::int32_t rule) const {
    return grammar_.at(grammar_.rules[static_cast<std::size_t>(rule)].body);
  }

  const Ends& ends(const GrammarExpression& expression, std::size_t start) {
    const std::pair key{&expression, start};
    const auto known = known_.find(key);
    return known != known_.end() ? known->second : known_.emplace(key, find_ends(expression, start)).first->second;
  }

  Ends find_ends(const GrammarExpression& expression, std::size_t start) {
    using Kind = GrammarExpression::Kind;
    switch (expression.kind) {
      case Kind::literal:
        return std::string_view(text_).substr(start).starts_with(grammar_.text_of(expression))
                   ? Ends{start + expression.count}
                   : Ends{};
      case Kind::characters: {
        if (start == text_.size() || utf8_unit(text_, start).kind != Utf8Unit::Kind::character) {
          return {};
        }
        const std::size_t length = utf8_unit(text_, start).length;
        const char32_t code = utf8_code_point(std::string_view(text_).substr(start, length));
        for (const CodeRange& range : grammar_.ranges_of(expression)) {
          if (range.first <= code && code <= range.last) {
            return {start + length};
          }
        }
        return {};
      }
      case Kind::reference:
        return ends(body_of(expression.rule), start);
      case Kind::sequence: {
        Ends reached{start};
        for (const std::int32_t part : grammar_.parts_of(expression)) {
          reached = after(grammar_.at(part), reached);
        }
        return reached;
      }
      case Kind::choice: {
        Ends all;
        for (const std::int32_t part : grammar_.parts_of(expression)) {
          const Ends& some = ends(grammar_.at(part), start);
          all.insert(some.begin(), some.end());
        }
        return all;
      }
      case Kind::repeat: {
        Ends reached{start}, all;
        for (std::uint32_t i = 0; i <= expression.maximum && !reached.empty(); ++i) {
          const std::size_t before = all.size();
          if (i >= expression.minimum) {
            all.insert(reached.begin(), reached.end());
            if (i > expression.minimum + text_.size() && all.size() == before) {
              break;
            }
          }
          reached = after(grammar_.at(grammar_.parts_of(expression).front()), reached);
        }
        return all;
      }
      case Kind::automaton:
        break;  // texts of grammars have none
    }
    return {};
  }

  Ends after(const GrammarExpression& expression, const Ends& starts) {
    Ends all;
    for (const std::size_t start : starts) {
      const Ends& some = ends(expression, start);
      all.insert(some.begin(), some.end());
    }
    return all;
  }

  const Grammar& grammar_;
  std::string text_;
  std::map<std::pair<const GrammarExpression*, std::size_t>, Ends> known_;
};

/// A piece of a rule that may refer to rules of higher numbers, or, after a byte, to any rule.
std::string random_piece(std::mt19937& random, int rule, int rules, int depth) {
  const auto below = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  const auto inner = [&] { return random_piece(random, rule, rules, depth + 1); };
  const auto pair =
      [&](std::string_view joint) {  // one after the other: compilers evaluate arguments in orders of their own
        const std::string first = inner();
        return fmt::format("({}{}{})", first, joint, inner());
      };
  switch (below(depth > 3 ? 3 : 9)) {
    case 0:
      return std::vector<std::string>{"\"a\"", "\"b\"", "\"ab\"", "\"\u00e9\"", "\"\""}[static_cast<std::size_t>(below(5))];
    case 1:
      return std::vector<std::string>{"[ab]", "[^a]", ".", "[\u00e0-\u20ac]"}[static_cast<std::size_t>(below(4))];
    case 2:
      return rule + 1 < rules ? fmt::format("r{}", rule + 1 + below(rules - rule - 1)) : "\"b\"";
    case 3:
      return fmt::format("(\"a\" r{})?", below(rules));
    case 4:
      return pair(" | ");
    case 5: {
      const std::string what = inner();
      return what + std::vector<std::string>{"?", "*", "+", "{2}", "{1,3}", "{2,}"}[static_cast<std::size_t>(below(6))];
    }
    default:
      return pair(" ");
  }
}

TEST(Gbnf, AgreesWithARecognizerThatTriesEverything) {
  std::mt19937 random(7);
  const auto trie = small_trie();
  const std::vector<std::string> letters = {"a", "b", "\u00e9", "\u20ac", "\xc3"};
  int inside = 0, outside = 0, refused = 0;
  for (int round = 0; round < 400; ++round) {
    std::string text = "root ::= r0\n";
    const int rules = 1 + static_cast<int>(random() % 4);
    for (int rule = 0; rule < rules; ++rule) {
      text += fmt::format("r{} ::= {}\n", rule, random_piece(random, rule, rules, 0));
    }
    SCOPED_TRACE(text);
    std::shared_ptr<GrammarMatcher> matcher;
    Grammar grammar;
    try {
      matcher = test::matcher_of(text, trie);
      grammar = parse_gbnf(text);
    } catch (const Error&) {  // the grammar may be left-recursive through an empty text
      ++refused;
      continue;
    }
    for (int i = 0; i < 60; ++i) {
      std::string candidate;
      for (std::size_t length = random() % 7; length > 0; --length) {
        candidate += letters[random() % (i % 8 == 0 ? 5 : 4)];
      }
      const bool expected = Recognizer(grammar, candidate).matches();
      EXPECT_EQ(matches(matcher, candidate), expected) << candidate;
      (expected ? inside : outside)++;
    }
  }
  EXPECT_GT(inside, 2000);
  EXPECT_GT(outside, 2000);
  EXPECT_LT(refused, 200);
}

TEST(Utf8Ranges, CoverExactlyTheirCharacters) {
  std::mt19937 random(11);
  constexpr char32_t edges[] = {0,      0x7F,   0x80,   0x7FF,   0x800,   0xFFF,   0x1000,
                                0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x3FFFF, 0x10FFFF};
  for (int round = 0; round < 60; ++round) {
    const auto edge = [&] { return static_cast<char32_t>(edges[random() % std::size(edges)] + random() % 5 - 2); };
    std::vector<CodeRange> ranges;
    for (int i = 0; i < 3; ++i) {
      const char32_t a = std::min<char32_t>(edge(), 0x10FFFF), b = std::min<char32_t>(edge(), 0x10FFFF);
      ranges.push_back({std::min(a, b), std::max(a, b)});
    }
    ranges = normalize(ranges);
    const auto sequences = utf8_sequences(ranges);
    for (char32_t code = 0; code <= 0x10FFFF; code += static_cast<char32_t>(1 + random() % (code < 0x3000 ? 3 : 300))) {
      if (code >= 0xD800 && code <= 0xDFFF) {
        continue;
      }
      std::string bytes;
      append_utf8(bytes, code);
      const auto count = std::count_if(sequences.begin(), sequences.end(), [&](const std::vector<ByteRange>& sequence) {
        return std::equal(sequence.begin(), sequence.end(), bytes.begin(), bytes.end(), [](ByteRange range, char byte) {
          return range.first <= static_cast<std::uint8_t>(byte) && static_cast<std::uint8_t>(byte) <= range.last;
        });
      });
      const bool inside = std::any_of(ranges.begin(), ranges.end(),
                                      [&](const CodeRange& range) { return range.first <= code && code <= range.last; });
      ASSERT_EQ(count, inside ? 1 : 0) << std::hex << static_cast<std::uint32_t>(code);
    }
  }
}

}  // namespace
}  // namespace rocmforge
