#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "base/decimal.h"
#include "chat/jinja/parser.h"

namespace rocmforge::jinja {
namespace {

constexpr std::int32_t deepest_level = 100;
constexpr std::int32_t longest_chain = 200;

ExpressionPointer literal(Position position, Value value) {
  auto node = node_at<Literal>(position);
  node->held = std::move(value);
  return node;
}

}  // namespace

Parser::Level::Level(Parser& parser) : parser_(parser) {
  if (parser_.level_ >= deepest_level) {
    fail(parser_.peek().position, "nested too deeply");
  }
  ++parser_.level_;
}

void Parser::check_chain(std::int32_t& length) const {
  if (++length > longest_chain) {
    fail(peek().position, "an expression that is too long");
  }
}

ExpressionPointer Parser::parse_expression() {
  const Level level(*this);
  ExpressionPointer node = parse_or();
  std::int32_t chain = 0;
  while (is_name("if")) {
    check_chain(chain);
    auto conditional = node_at<Conditional>(take().position);
    conditional->when_true = std::move(node);
    conditional->condition = parse_or();
    if (skip_name("else")) {
      conditional->when_false = parse_expression();
    }
    node = std::move(conditional);
  }
  return node;
}

ExpressionPointer Parser::parse_or() {
  ExpressionPointer left = parse_and();
  std::int32_t chain = 0;
  while (is_name("or")) {
    check_chain(chain);
    auto node = node_at<Logical>(take().position);
    node->left = std::move(left);
    node->right = parse_and();
    left = std::move(node);
  }
  return left;
}

ExpressionPointer Parser::parse_and() {
  ExpressionPointer left = parse_not();
  std::int32_t chain = 0;
  while (is_name("and")) {
    check_chain(chain);
    auto node = node_at<Logical>(take().position);
    node->is_and = true;
    node->left = std::move(left);
    node->right = parse_not();
    left = std::move(node);
  }
  return left;
}

ExpressionPointer Parser::parse_not() {
  if (!is_name("not")) {
    return parse_comparison();
  }
  const Level level(*this);
  auto node = node_at<Not>(take().position);
  node->operand = parse_not();
  return node;
}

ExpressionPointer Parser::parse_comparison() {
  using Kind = Comparison::Kind;
  constexpr std::array<std::pair<std::string_view, Kind>, 6> symbols = {{{"==", Kind::equal},
                                                                         {"!=", Kind::unequal},
                                                                         {"<", Kind::less},
                                                                         {"<=", Kind::at_most},
                                                                         {">", Kind::greater},
                                                                         {">=", Kind::at_least}}};
  ExpressionPointer first = parse_sum();
  std::unique_ptr<Comparison> node;
  while (true) {
    const Position position = peek().position;
    std::optional<Kind> kind;
    for (const auto& [symbol, meaning] : symbols) {
      if (!kind.has_value() && skip_symbol(symbol)) {
        kind = meaning;
      }
    }
    if (!kind.has_value() && skip_name("in")) {
      kind = Kind::in;
    } else if (!kind.has_value() && is_name("not") && tokens_[at_ + 1].kind == Token::Kind::name &&
               tokens_[at_ + 1].text == "in") {
      at_ += 2;
      kind = Kind::not_in;
    }
    if (!kind.has_value()) {
      break;
    }
    if (node == nullptr) {
      node = node_at<Comparison>(position);
      node->first = std::move(first);
    }
    node->others.emplace_back(*kind, parse_sum());
  }
  return node != nullptr ? std::move(node) : std::move(first);
}

ExpressionPointer Parser::calculation(const Token& symbol, Arithmetic operation, ExpressionPointer left,
                                      ExpressionPointer right) {
  auto node = node_at<Calculation>(symbol.position);
  node->operation = operation;
  node->left = std::move(left);
  node->right = std::move(right);
  return node;
}

ExpressionPointer Parser::parse_sum() {
  ExpressionPointer left = parse_concatenation();
  std::int32_t chain = 0;
  while (is_symbol("+") || is_symbol("-")) {
    check_chain(chain);
    const Token symbol = take();
    ExpressionPointer right = parse_concatenation();
    left =
        calculation(symbol, symbol.text == "+" ? Arithmetic::add : Arithmetic::subtract, std::move(left), std::move(right));
  }
  return left;
}

ExpressionPointer Parser::parse_concatenation() {
  ExpressionPointer first = parse_product();
  if (!is_symbol("~")) {
    return first;
  }
  auto node = node_at<Concatenation>(peek().position);
  node->parts.push_back(std::move(first));
  while (skip_symbol("~")) {
    node->parts.push_back(parse_product());
  }
  return node;
}

ExpressionPointer Parser::parse_product() {
  constexpr std::array<std::pair<std::string_view, Arithmetic>, 4> symbols = {{{"*", Arithmetic::multiply},
                                                                               {"/", Arithmetic::divide},
                                                                               {"//", Arithmetic::floor_divide},
                                                                               {"%", Arithmetic::remainder}}};
  ExpressionPointer left = parse_power();
  std::int32_t chain = 0;
  for (bool found = true; found;) {
    found = false;
    for (const auto& [text, operation] : symbols) {
      if (is_symbol(text)) {
        check_chain(chain);
        const Token symbol = take();
        ExpressionPointer right = parse_power();
        left = calculation(symbol, operation, std::move(left), std::move(right));
        found = true;
      }
    }
  }
  return left;
}

ExpressionPointer Parser::parse_power() {
  ExpressionPointer left = parse_unary(true);
  std::int32_t chain = 0;
  while (is_symbol("**")) {
    check_chain(chain);
    const Token symbol = take();
    ExpressionPointer right = parse_unary(true);
    left = calculation(symbol, Arithmetic::power, std::move(left), std::move(right));
  }
  return left;
}

ExpressionPointer Parser::parse_unary(bool with_filters) {
  ExpressionPointer node;
  if (is_symbol("-") || is_symbol("+")) {
    const Level level(*this);
    const Token symbol = take();
    auto sign = node_at<Sign>(symbol.position);
    sign->minus = symbol.text == "-";
    sign->operand = parse_unary(false);
    node = std::move(sign);
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filters ? parse_filters(std::move(node)) : std::move(node);
}

ExpressionPointer Parser::parse_primary() {
  const Token& token = peek();
  switch (token.kind) {
    case Token::Kind::name:
      return parse_name();
    case Token::Kind::text: {
      const Position position = token.position;
      std::string text;
      while (peek().kind == Token::Kind::text) {
        text += take().text;
      }
      return literal(position, Value::text(Text(text, true)));
    }
    case Token::Kind::integer:
    case Token::Kind::real:
      return parse_number();
    default:
      break;
  }
  if (is_symbol("[")) {
    return parse_list();
  }
  if (is_symbol("{")) {
    return parse_dictionary();
  }
  if (skip_symbol("(")) {
    ExpressionPointer node = parse_tuple(true, true);
    expect_symbol(")");
    return node;
  }
  fail(token.position, fmt::format("an expression is missing before {}", describe(token)));
}

ExpressionPointer Parser::parse_name() {
  const Token token = take();
  const std::string& name = token.text;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    return literal(token.position, Value::boolean(name == "true" || name == "True"));
  }
  if (name == "none" || name == "None") {
    return literal(token.position, Value(None{}));
  }
  for (const std::string_view reserved : {"and", "or", "not", "in", "is", "if", "else", "elif"}) {
    if (name == reserved) {
      fail(token.position, fmt::format("an expression is missing before '{}'", name));
    }
  }
  for (MacroDefinition* macro : macros_) {
    macro->uses_caller = macro->uses_caller || name == "caller";
    macro->uses_kwargs = macro->uses_kwargs || name == "kwargs";
    macro->uses_varargs = macro->uses_varargs || name == "varargs";
  }
  auto node = node_at<Name>(token.position);
  node->name = name;
  return node;
}

ExpressionPointer Parser::parse_number() {
  const Token token = take();
  std::string_view digits = token.text;
  if (token.kind == Token::Kind::real) {
    const double value = read_decimal(std::string(digits)).value;
    if (std::isinf(value)) {
      fail(token.position, "a number that is too large");
    }
    return literal(token.position, Value::real(value));
  }
  const char prefix = digits.size() > 2 && digits[0] == '0' ? static_cast<char>(digits[1] | 0x20) : ' ';
  const int base = prefix == 'x' ? 16 : (prefix == 'o' ? 8 : (prefix == 'b' ? 2 : 10));
  if (base != 10) {
    digits.remove_prefix(2);
  } else if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string_view::npos) {
    fail(token.position, "a number must not begin with 0");
  }
  const auto value = read_integer(digits, base);
  if (!value.has_value()) {
    fail(token.position, fmt::format("'{}' is no integer, or too large", token.text));
  }
  return literal(token.position, Value::integer(*value));
}

ExpressionPointer Parser::parse_list() {
  auto node = node_at<SequenceLiteral>(take().position);
  while (!is_symbol("]")) {
    node->items.push_back(parse_expression());
    if (!skip_symbol(",")) {
      break;
    }
  }
  expect_symbol("]");
  return node;
}

ExpressionPointer Parser::parse_dictionary() {
  auto node = node_at<DictionaryLiteral>(take().position);
  while (!is_symbol("}")) {
    ExpressionPointer key = parse_expression();
    expect_symbol(":");
    ExpressionPointer value = parse_expression();
    node->entries.emplace_back(std::move(key), std::move(value));
    if (!skip_symbol(",")) {
      break;
    }
  }
  expect_symbol("}");
  return node;
}

ExpressionPointer Parser::parse_tuple(bool empty, bool conditional) {
  const Position position = peek().position;
  Expressions items;
  bool several = false;
  const auto at_end = [this] {
    return peek().kind == Token::Kind::block_end || peek().kind == Token::Kind::output_end || is_symbol(")") ||
           is_name("recursive");
  };
  while (!at_end()) {
    items.push_back(conditional ? parse_expression() : parse_or());
    if (!skip_symbol(",")) {
      break;
    }
    several = true;
  }
  if (!several && !items.empty()) {
    return std::move(items.front());
  }
  if (!several && !empty) {
    fail(position, fmt::format("an expression is missing before {}", describe(peek())));
  }
  auto node = node_at<SequenceLiteral>(position);
  node->kind = Sequence::Kind::tuple;
  node->items = std::move(items);
  return node;
}

ExpressionPointer Parser::parse_postfix(ExpressionPointer node) {
  std::int32_t chain = 0;
  while (true) {
    if (is_symbol(".")) {
      node = parse_attribute(std::move(node));
    } else if (is_symbol("[")) {
      node = parse_subscript(std::move(node));
    } else if (is_symbol("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
    check_chain(chain);
  }
}

ExpressionPointer Parser::parse_filters(ExpressionPointer node) {
  std::int32_t chain = 0;
  while (true) {
    if (skip_symbol("|")) {
      node = parse_filter(std::move(node));
    } else if (skip_name("is")) {
      node = parse_test(std::move(node));
    } else if (is_symbol("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
    check_chain(chain);
  }
}

std::unique_ptr<FilterUse> Parser::parse_filter(ExpressionPointer input) {
  auto node = node_at<FilterUse>(peek().position);
  node->name = expect_name("a filter");
  while (skip_symbol(".")) {
    node->name += '.';
    node->name += expect_name("a filter");
  }
  node->filter = find_filter(node->name);
  node->input = std::move(input);
  if (is_symbol("(")) {
    node->arguments = parse_arguments();
  }
  return node;
}

ExpressionPointer Parser::parse_test(ExpressionPointer input) {
  const Position position = peek().position;
  const bool negated = skip_name("not");
  auto node = node_at<TestUse>(peek().position);
  node->name = expect_name("a test");
  while (skip_symbol(".")) {
    node->name += '.';
    node->name += expect_name("a test");
  }
  node->test = find_test(node->name);
  node->input = std::move(input);
  const Token& next = peek();
  const bool is_value = next.kind == Token::Kind::name || next.kind == Token::Kind::text ||
                        next.kind == Token::Kind::integer || next.kind == Token::Kind::real || is_symbol("[") ||
                        is_symbol("{");
  if (is_symbol("(")) {
    node->arguments = parse_arguments();
  } else if (is_name("is")) {
    fail(next.position, "tests can't be chained with 'is'");
  } else if (is_value && !is_name("else") && !is_name("or") && !is_name("and")) {
    // Jinja allows one argument without brackets. These words continue the expression and are not an argument.
    if (!is_name("if") && !is_name("not") && !is_name("in") && !is_name("recursive")) {
      node->arguments.positional.push_back(parse_postfix(parse_primary()));
    }
  }
  if (!negated) {
    return node;
  }
  auto inverse = node_at<Not>(position);
  inverse->operand = std::move(node);
  return inverse;
}

ExpressionPointer Parser::parse_attribute(ExpressionPointer object) {
  const Token dot = take();
  const Token& token = peek();
  if (token.kind == Token::Kind::integer) {
    auto node = node_at<ElementAccess>(dot.position);
    node->object = std::move(object);
    node->key = parse_number();
    return node;
  }
  auto node = node_at<AttributeAccess>(token.position);
  node->object = std::move(object);
  node->name = expect_name("an attribute");
  return node;
}

ExpressionPointer Parser::parse_subscript(ExpressionPointer object) {
  const Position position = take().position;
  const auto ends = [this] { return is_symbol("]") || is_symbol(":"); };
  ExpressionPointer first = ends() ? nullptr : parse_expression();
  if (first != nullptr && is_symbol(",")) {  // a tuple as the key
    auto key = node_at<SequenceLiteral>(position);
    key->kind = Sequence::Kind::tuple;
    key->items.push_back(std::move(first));
    while (skip_symbol(",")) {
      key->items.push_back(parse_expression());
    }
    first = std::move(key);
  }
  if (first != nullptr && skip_symbol("]")) {
    auto node = node_at<ElementAccess>(position);
    node->object = std::move(object);
    node->key = std::move(first);
    return node;
  }
  auto node = node_at<SliceAccess>(position);
  node->object = std::move(object);
  node->start = std::move(first);
  expect_symbol(":");
  node->stop = ends() ? nullptr : parse_expression();
  if (skip_symbol(":")) {
    node->step = ends() ? nullptr : parse_expression();
  }
  expect_symbol("]");
  return node;
}

ExpressionPointer Parser::parse_call(ExpressionPointer function) {
  auto node = node_at<Call>(peek().position);
  node->function = std::move(function);
  node->arguments = parse_arguments();
  return node;
}

CallArguments Parser::parse_arguments() {
  CallArguments arguments;
  expect_symbol("(");
  while (!is_symbol(")")) {
    const Position position = peek().position;
    const bool is_named =
        peek().kind == Token::Kind::name && tokens_[at_ + 1].kind == Token::Kind::symbol && tokens_[at_ + 1].text == "=";
    if (skip_symbol("**")) {
      arguments.all_named = parse_expression();
    } else if (skip_symbol("*")) {
      arguments.all_positional = parse_expression();
    } else if (is_named) {
      std::string name = take().text;
      take();
      arguments.named.emplace_back(std::move(name), parse_expression());
    } else if (!arguments.named.empty() || arguments.all_positional != nullptr || arguments.all_named != nullptr) {
      fail(position, "an argument without a name after one with a name");
    } else {
      arguments.positional.push_back(parse_expression());
    }
    if (!skip_symbol(",")) {
      break;
    }
  }
  expect_symbol(")");
  return arguments;
}

}  // namespace rocmforge::jinja
