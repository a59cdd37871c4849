#include "server/api/thoughts.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/thought_budget.h"
#include "server/api/api_error.h"

namespace rocmforge {
namespace {

constexpr std::int64_t most_tokens = std::int64_t{1} << 30;

/// The names that templates use for it.
void switch_thinking(Json& arguments, bool on) {
  for (const char* name : {"enable_thinking", "thinking"}) {
    if (!arguments.contains(name)) {
      arguments[name] = on;
    }
  }
}

std::optional<std::int64_t> read_budget(Fields& fields) {
  std::optional<std::int64_t> budget;
  std::string named_by;
  const auto read = [&](Fields& object, std::string_view name) {
    const auto tokens = object.integer(name, -1, most_tokens);
    if (tokens && budget && *tokens != *budget) {
      object.fail(name, fmt::format("is {}, but {} is {}", *tokens, named_by, *budget));
    }
    if (tokens) {
      budget = tokens;
      named_by = object.full_name(name);
    }
  };
  for (const std::string_view name :
       {"reasoning_budget", "thinking_budget_tokens", "thinking_token_budget", "reasoning.max_tokens"}) {
    read(fields, name);
  }
  if (const Json* thinking = fields.object("thinking")) {
    Fields inner(*thinking, "thinking.");
    read(inner, "budget_tokens");
  }
  return budget && *budget >= 0 ? budget : std::nullopt;
}

}  // namespace

void read_thinking_variables(Fields& fields, Json& template_arguments) {
  if (const auto effort = fields.text("reasoning_effort")) {
    template_arguments["reasoning_effort"] = *effort;
    if (*effort == "none") {
      switch_thinking(template_arguments, false);
    }
  }
  if (const Json* given = fields.object("thinking")) {
    Fields thinking = fields.inner(*given, "thinking.");
    switch_thinking(template_arguments, thinking.needed_choice("type", {"enabled", "disabled", "adaptive"}) != "disabled");
    thinking.ignore({"budget_tokens", "display"});  // the first is read by bound_thoughts
    thinking.finish();
  }
}

std::shared_ptr<const TokenConstraint> bound_thoughts(Fields& fields, const ToolUse& use, const ServedModel& model,
                                                      std::shared_ptr<const TokenConstraint> constraint) {
  const auto tokens = read_budget(fields);
  if (!tokens) {
    return constraint;
  }
  if (use.format.in_channels) {
    throw ApiError(400, "the reasoning of this model has no bound in tokens: reasoning_effort tells how much it thinks",
                   "reasoning_budget");
  }
  const ReasoningMarks& marks = use.format.reasoning;
  // A grammar begins directly after the mark.
  const std::string closing = fmt::format("\n{}{}", marks.end, constraint == nullptr ? "\n\n" : "");
  const std::array parts = {Tokenizer::TextPart{closing, true}};
  ThoughtBudget budget{.begin = std::string(marks.begin),
                       .end = std::string(marks.end),
                       .is_open = use.format.reasoning_is_open,
                       .tokens = static_cast<std::int32_t>(*tokens),
                       .closing = model.text().encode(parts, false)};
  return make_thought_budget(model.tokenizer, std::move(budget), constraint.get());
}

}  // namespace rocmforge
