#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/jinja/lexer.h"
#include "chat/jinja/statements.h"

namespace rocmforge::jinja {

/// A new syntax node with the given position.
template <class Node>
std::unique_ptr<Node> node_at(Position position) {
  auto node = std::make_unique<Node>();
  node->position = position;
  return node;
}

/// Makes a syntax tree from tokens, by recursive descent like Jinja's own parser. Throws TemplateError.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  /// Parses the whole template.
  Body parse();

 private:
  // The next tokens.
  [[nodiscard]] const Token& peek() const { return tokens_[at_]; }
  Token take() { return tokens_[at_].kind == Token::Kind::end ? tokens_[at_] : tokens_[at_++]; }
  [[nodiscard]] bool is(Token::Kind kind, std::string_view text) const;
  [[nodiscard]] bool is_symbol(std::string_view text) const { return is(Token::Kind::symbol, text); }
  [[nodiscard]] bool is_name(std::string_view text) const { return is(Token::Kind::name, text); }
  bool skip_symbol(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_symbol(std::string_view text);
  std::string expect_name(std::string_view what);
  void expect_block_end();
  [[noreturn]] static void fail(Position position, const std::string& message) { throw TemplateError(position, message); }

  // Statements (parser.cpp).
  using Names = std::initializer_list<std::string_view>;
  Body parse_body(Names ends);
  std::unique_ptr<Statement> parse_statement();
  std::unique_ptr<Statement> parse_if();
  std::unique_ptr<Statement> parse_for();
  std::unique_ptr<Statement> parse_set();
  std::unique_ptr<Statement> parse_macro();
  std::unique_ptr<Statement> parse_call_block();
  std::unique_ptr<Statement> parse_filter_block();
  std::unique_ptr<Statement> parse_with(bool has_assignments);
  std::unique_ptr<Statement> parse_loop_control(Flow flow);
  void parse_parameters(MacroDefinition& macro);
  void parse_macro_body(MacroDefinition& macro, std::string_view end);
  Target parse_target();
  Target parse_single_target();

  // Expressions (parser_expressions.cpp).
  ExpressionPointer parse_expression();
  ExpressionPointer parse_or();
  ExpressionPointer parse_and();
  ExpressionPointer parse_not();
  ExpressionPointer parse_comparison();
  ExpressionPointer parse_sum();
  ExpressionPointer parse_concatenation();
  ExpressionPointer parse_product();
  ExpressionPointer parse_power();
  ExpressionPointer parse_unary(bool with_filters);
  ExpressionPointer parse_primary();
  ExpressionPointer parse_name();
  ExpressionPointer parse_number();
  ExpressionPointer parse_list();
  ExpressionPointer parse_dictionary();
  /// Parses one expression, or several with commas between them as a tuple. With `empty`, no expression is an empty tuple.
  /// With `conditional`, an expression may be an inline if.
  ExpressionPointer parse_tuple(bool empty, bool conditional);
  ExpressionPointer parse_postfix(ExpressionPointer node);
  ExpressionPointer parse_filters(ExpressionPointer node);
  std::unique_ptr<FilterUse> parse_filter(ExpressionPointer input);
  ExpressionPointer parse_test(ExpressionPointer input);
  ExpressionPointer parse_attribute(ExpressionPointer object);
  ExpressionPointer parse_subscript(ExpressionPointer object);
  ExpressionPointer parse_call(ExpressionPointer function);
  CallArguments parse_arguments();
  ExpressionPointer calculation(const Token& symbol, Arithmetic operation, ExpressionPointer left, ExpressionPointer right);

  /// Counts the levels of the syntax, so that a hostile template can't exhaust the stack.
  class Level {
   public:
    explicit Level(Parser& parser);
    ~Level() { --parser_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };
  /// Checks the number of operators in a row, since each is a further level of the tree. `length` counts them.
  void check_chain(std::int32_t& length) const;

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::int32_t level_ = 0;
  std::int32_t loops_ = 0;                // number of loops around the current position, for break and continue
  std::vector<MacroDefinition*> macros_;  // the macros being parsed, innermost last
};

}  // namespace rocmforge::jinja
