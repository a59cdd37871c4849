#include "server/api/constraints.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "engine/grammar/grammar_constraint.h"
#include "engine/grammar/json_schema.h"
#include "server/api/api_error.h"
#include "server/exchange.h"

namespace rocmforge {
namespace {

/// GBNF and the field that asks for it.
struct Wanted {
  std::string gbnf;
  std::string field;
};

Wanted from_schema(const Json& schema, const std::string& field, Exchange& exchange) {
  if (!schema.is_object() && !schema.is_boolean()) {
    throw ApiError(400, fmt::format("{} must be an object", field), field);
  }
  try {
    WorkBudget budget(grammar_compile_units, "json_schema: compiling it", &exchange.budget);
    return {json_schema_to_gbnf(schema, budget), field};
  } catch (const Error& error) {
    throw ApiError(400, fmt::format("{}: {}", field, error.what()), field);
  }
}

void check_name(const Fields& fields, const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  if (name.empty() || name.size() > 64 || !std::ranges::all_of(name, allowed)) {
    fields.fail("name", "must be 1 to 64 of A-Z a-z 0-9 _ -");
  }
}

std::optional<Wanted> read_response_format(const Fields& request, const Json& object, Exchange& exchange) {
  Fields fields = request.inner(object, "response_format.");
  const std::string type = fields.needed_choice("type", {"text", "json_object", "json_schema"});
  std::optional<Wanted> wanted;
  if (type == "json_object") {
    const Json* schema = fields.find("schema");
    const std::string field = "response_format.schema";
    wanted = schema == nullptr ? Wanted{json_object_gbnf(), "response_format"} : from_schema(*schema, field, exchange);
  } else if (type == "json_schema") {
    Fields schema = request.inner(fields.needed_object("json_schema"), "response_format.json_schema.");
    if (const auto name = schema.text("name")) {
      check_name(schema, *name);
    }
    static_cast<void>(schema.boolean("strict"));  // it always is
    schema.ignore({"description"});
    const Json* value = schema.find("schema");
    if (value == nullptr) {
      schema.fail("schema", "is missing");
    }
    wanted = from_schema(*value, "response_format.json_schema.schema", exchange);
    schema.finish();
  }
  fields.finish();
  return wanted;
}

}  // namespace

std::shared_ptr<GrammarMatcher> GrammarCache::find(const std::string& gbnf) {
  std::erase_if(known_, [](const Known& one) { return one.matcher.expired(); });
  const auto found = std::ranges::find(known_, gbnf, &Known::gbnf);
  return found == known_.end() ? nullptr : found->matcher.lock();
}

/// As the latest, and drops what was used longest ago where that is too much.
void GrammarCache::keep(std::shared_ptr<GrammarMatcher> matcher) {
  kept_.remove(matcher);
  kept_.push_front(std::move(matcher));
  std::size_t bytes = 0, count = 0;
  auto place = kept_.begin();
  for (; place != kept_.end() && count < most_grammars && bytes <= most_bytes; ++place, ++count) {
    bytes += (*place)->memory_bytes();
  }
  if (bytes > most_bytes && count > 1) {
    --place;
  }
  kept_.erase(place, kept_.end());
}

std::size_t GrammarCache::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const Known& one : known_) {
    if (const auto matcher = one.matcher.lock()) {
      bytes += matcher->memory_bytes() + one.gbnf.size();
    }
  }
  return bytes;
}

std::shared_ptr<GrammarMatcher> GrammarCache::get(const std::string& gbnf, WorkBudget& budget) {
  std::shared_ptr<const TokenTrie> trie;
  {
    const std::lock_guard lock(mutex_);
    if (std::shared_ptr<GrammarMatcher> known = find(gbnf)) {
      keep(known);
      return known;
    }
    if (tokenizer_ == nullptr) {
      throw Error("the model's file has no tokenizer");
    }
    if (trie_ == nullptr) {
      trie_ = std::make_shared<const TokenTrie>(*tokenizer_);
    }
    trie = trie_;
  }
  WorkBudget compiling(grammar_compile_units, "grammar: compiling it", &budget);
  std::shared_ptr<GrammarMatcher> matcher = GrammarMatcher::create(gbnf, std::move(trie), compiling);  // may take a while
  const std::lock_guard lock(mutex_);
  if (std::shared_ptr<GrammarMatcher> known = find(gbnf)) {
    matcher = std::move(known);  // somebody else was quicker
  } else {
    known_.push_back({gbnf, matcher});
  }
  keep(matcher);
  return matcher;
}

std::shared_ptr<GrammarMatcher> held_grammar(const std::string& gbnf, GrammarCache& grammars, Exchange& exchange) {
  std::shared_ptr<GrammarMatcher> matcher = grammars.get(gbnf, exchange.budget);
  exchange.hold_to_end(static_cast<std::int64_t>(matcher->memory_bytes() + gbnf.size()));
  return matcher;
}

std::shared_ptr<const TokenConstraint> read_constraint(Fields& fields, GrammarCache& grammars, Exchange& exchange,
                                                       const GrammarTrigger* trigger) {
  std::vector<Wanted> wanted;
  if (const auto grammar = fields.text("grammar"); grammar && !grammar->empty()) {
    wanted.push_back({*grammar, fields.full_name("grammar")});
  }
  if (const Json* schema = fields.find("json_schema")) {
    wanted.push_back(from_schema(*schema, fields.full_name("json_schema"), exchange));
  }
  if (const Json* format = fields.object("response_format")) {
    if (auto found = read_response_format(fields, *format, exchange)) {
      wanted.push_back(std::move(*found));
    }
  }
  if (wanted.size() > 1) {
    throw ApiError(400, fmt::format("{} and {} can't both rule the answer", wanted[0].field, wanted[1].field),
                   wanted[1].field);
  }
  if (wanted.empty()) {
    return nullptr;
  }
  try {
    auto matcher = held_grammar(wanted.front().gbnf, grammars, exchange);
    return trigger != nullptr ? make_lazy_grammar_constraint(std::move(matcher), *trigger)
                              : make_grammar_constraint(std::move(matcher));
  } catch (const Error& error) {
    const std::string mark = wanted.front().field + ": ";
    const std::string problem = error.what();
    throw ApiError(400, problem.starts_with(mark) ? problem : mark + problem, wanted.front().field);
  }
}

}  // namespace rocmforge
