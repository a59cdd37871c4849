#include "chat/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>

namespace rocmforge::jinja {
bool Parser::is(Token::Kind kind, std::string_view text) const { return peek().kind == kind && peek().text == text; }

bool Parser::skip_symbol(std::string_view text) {
  const bool found = is_symbol(text);
  at_ += found ? 1 : 0;
  return found;
}

bool Parser::skip_name(std::string_view text) {
  const bool found = is_name(text);
  at_ += found ? 1 : 0;
  return found;
}

void Parser::expect_symbol(std::string_view text) {
  if (!skip_symbol(text)) {
    fail(peek().position, fmt::format("'{}' is missing before {}", text, describe(peek())));
  }
}

std::string Parser::expect_name(std::string_view what) {
  if (peek().kind != Token::Kind::name) {
    fail(peek().position, fmt::format("the name of {} is missing before {}", what, describe(peek())));
  }
  return take().text;
}

void Parser::expect_block_end() {
  if (peek().kind != Token::Kind::block_end) {
    fail(peek().position, fmt::format("unexpected {} in a tag", describe(peek())));
  }
  take();
}

Body Parser::parse() {
  Body body = parse_body({});
  if (peek().kind != Token::Kind::end) {
    fail(peek().position, fmt::format("unexpected tag {}", describe(tokens_[at_ + 1])));
  }
  return body;
}

/// Reads statements up to a tag with one of the names `ends`, whose "{%" is consumed. Without names, up to the end.
Body Parser::parse_body(Names ends) {
  const Level level(*this);
  const Position begin = peek().position;
  Body body;
  while (true) {
    const Token& token = peek();
    if (token.kind == Token::Kind::data) {
      auto node = node_at<WriteText>(token.position);
      node->text = take().text;
      body.statements.push_back(std::move(node));
    } else if (token.kind == Token::Kind::output_begin) {
      auto node = node_at<WriteValue>(take().position);
      node->expression = parse_tuple(false, true);
      if (peek().kind != Token::Kind::output_end) {
        fail(peek().position, fmt::format("unexpected {} in an expression", describe(peek())));
      }
      take();
      body.statements.push_back(std::move(node));
    } else if (token.kind == Token::Kind::block_begin) {
      if (std::ranges::find(ends, tokens_[at_ + 1].text) != ends.end()) {
        take();
        return body;
      }
      body.statements.push_back(parse_statement());
    } else if (ends.size() == 0) {
      return body;
    } else {
      fail(begin, fmt::format("the block that begins before here does not end: '{}' is missing", *(ends.end() - 1)));
    }
  }
}

std::unique_ptr<Statement> Parser::parse_statement() {
  const Position position = take().position;
  const Token token = peek();
  if (token.kind != Token::Kind::name) {
    fail(token.position, fmt::format("the name of a tag is missing before {}", describe(token)));
  }
  take();
  std::unique_ptr<Statement> node;
  const std::string& name = token.text;
  if (name == "if") {
    node = parse_if();
  } else if (name == "for") {
    node = parse_for();
  } else if (name == "set") {
    node = parse_set();
  } else if (name == "macro") {
    node = parse_macro();
  } else if (name == "call") {
    node = parse_call_block();
  } else if (name == "filter") {
    node = parse_filter_block();
  } else if (name == "with" || name == "generation") {
    node = parse_with(name == "with");
  } else if (name == "break" || name == "continue") {
    node = parse_loop_control(name == "break" ? Flow::break_loop : Flow::continue_loop);
  } else {
    fail(token.position, fmt::format("there is no tag '{}'", name));
  }
  node->position = position;
  return node;
}

std::unique_ptr<Statement> Parser::parse_if() {
  auto node = std::make_unique<If>();
  while (true) {
    ExpressionPointer condition = parse_tuple(false, false);
    expect_block_end();
    Body body = parse_body({"elif", "else", "endif"});
    node->branches.emplace_back(std::move(condition), std::move(body));
    if (skip_name("elif")) {
      continue;
    }
    if (skip_name("else")) {
      expect_block_end();
      node->otherwise = parse_body({"endif"});
    }
    take();
    expect_block_end();
    return node;
  }
}

Target Parser::parse_single_target() {
  Target target;
  target.position = peek().position;
  if (skip_symbol("(")) {
    const Level level(*this);
    target = parse_target();
    expect_symbol(")");
    return target;
  }
  target.name = expect_name("a variable");
  for (const std::string_view reserved : {"true", "false", "none", "True", "False", "None", "loop"}) {
    if (target.name == reserved) {
      fail(target.position, fmt::format("'{}' can't be set", target.name));
    }
  }
  if (skip_symbol(".")) {
    target.attribute = expect_name("an attribute");
  }
  return target;
}

Target Parser::parse_target() {
  Target first = parse_single_target();
  if (!is_symbol(",")) {
    return first;
  }
  Target several;
  several.position = first.position;
  several.is_several = true;
  several.parts.push_back(std::move(first));
  while (skip_symbol(",")) {
    if (peek().kind != Token::Kind::name && !is_symbol("(")) {
      break;
    }
    several.parts.push_back(parse_single_target());
  }
  return several;
}

std::unique_ptr<Statement> Parser::parse_for() {
  auto node = std::make_unique<For>();
  node->target = parse_target();
  if (!skip_name("in")) {
    fail(peek().position, fmt::format("'in' is missing before {}", describe(peek())));
  }
  node->iterable = parse_tuple(false, false);
  if (skip_name("if")) {
    node->condition = parse_expression();
  }
  node->is_recursive = skip_name("recursive");
  expect_block_end();
  ++loops_;
  node->body = parse_body({"else", "endfor"});
  --loops_;
  if (skip_name("else")) {
    expect_block_end();
    node->otherwise = parse_body({"endfor"});
  }
  take();
  expect_block_end();
  return node;
}

std::unique_ptr<Statement> Parser::parse_set() {
  Target target = parse_target();
  if (skip_symbol("=")) {
    auto node = std::make_unique<Set>();
    node->target = std::move(target);
    node->expression = parse_tuple(false, true);
    expect_block_end();
    return node;
  }
  auto node = std::make_unique<BlockText>();
  node->target = std::move(target);
  node->has_target = true;
  while (skip_symbol("|")) {
    node->filters.push_back(parse_filter(nullptr));
  }
  expect_block_end();
  node->body = parse_body({"endset"});
  take();
  expect_block_end();
  return node;
}

std::unique_ptr<Statement> Parser::parse_filter_block() {
  auto node = std::make_unique<BlockText>();
  do {
    node->filters.push_back(parse_filter(nullptr));
  } while (skip_symbol("|"));
  expect_block_end();
  node->body = parse_body({"endfilter"});
  take();
  expect_block_end();
  return node;
}

void Parser::parse_parameters(MacroDefinition& macro) {
  expect_symbol("(");
  while (!is_symbol(")")) {
    const Position position = peek().position;
    std::string name = expect_name("a parameter");
    ExpressionPointer fallback = skip_symbol("=") ? parse_expression() : nullptr;
    if (fallback == nullptr && !macro.parameters.empty() && macro.parameters.back().second != nullptr) {
      fail(position, "a parameter without a default after one with a default");
    }
    macro.parameters.emplace_back(std::move(name), std::move(fallback));
    if (!skip_symbol(",")) {
      break;
    }
  }
  expect_symbol(")");
}

void Parser::parse_macro_body(MacroDefinition& macro, std::string_view end) {
  expect_block_end();
  macros_.push_back(&macro);
  const std::int32_t loops = std::exchange(loops_, 0);
  macro.body = parse_body({end});
  loops_ = loops;
  macros_.pop_back();
  take();
  expect_block_end();
}

std::unique_ptr<Statement> Parser::parse_macro() {
  auto node = std::make_unique<MacroDefinition>();
  node->name = expect_name("a macro");
  parse_parameters(*node);
  parse_macro_body(*node, "endmacro");
  return node;
}

std::unique_ptr<Statement> Parser::parse_call_block() {
  auto node = std::make_unique<CallBlock>();
  node->caller.name = "caller";
  node->caller.position = peek().position;
  if (is_symbol("(")) {
    parse_parameters(node->caller);
  }
  const Position position = peek().position;
  ExpressionPointer expression = parse_expression();
  auto* call = dynamic_cast<Call*>(expression.get());
  if (call == nullptr) {
    fail(position, "a call is missing");
  }
  static_cast<void>(expression.release());
  node->call.reset(call);
  parse_macro_body(node->caller, "endcall");
  return node;
}

std::unique_ptr<Statement> Parser::parse_with(bool has_assignments) {
  auto node = std::make_unique<With>();
  while (has_assignments && peek().kind != Token::Kind::block_end) {
    Target target = parse_target();
    expect_symbol("=");
    node->assignments.emplace_back(std::move(target), parse_expression());
    if (!skip_symbol(",")) {
      break;
    }
  }
  expect_block_end();
  node->body = parse_body({has_assignments ? "endwith" : "endgeneration"});
  take();
  expect_block_end();
  return node;
}

std::unique_ptr<Statement> Parser::parse_loop_control(Flow flow) {
  if (loops_ == 0) {
    fail(peek().position, "there is no loop to break or continue");
  }
  auto node = std::make_unique<LoopControl>();
  node->flow = flow;
  expect_block_end();
  return node;
}

}  // namespace rocmforge::jinja
