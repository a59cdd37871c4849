#include "server/api/thoughts.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "grammar/thought_budget.h"
#include "tokenizer/answer_formats.h"

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

/// What ends reasoning at its limit. A grammar begins directly after the mark. In the harmony format the answer's message is
/// begun, too, or where it may be a call, a message whose channel the model chooses.
std::string closing_of(const ToolUse& use, bool has_grammar) {
  if (!use.format.in_channels) {
    return fmt::format("\n{}{}", use.format.reasoning.end, has_grammar ? "" : "\n\n");
  }
  return fmt::format("{}{}assistant{}", harmony_marks::end, harmony_marks::start,
                     use.format.has_tools ? "" : use.format.reasoning.end);
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
  const ReasoningMarks& marks = use.format.reasoning;
  const std::string closing = closing_of(use, constraint != nullptr);
  const std::array parts = {Tokenizer::TextPart{closing, true}};
  ThoughtBudget budget{.begin = std::string(marks.begin),
                       .end = std::string(use.format.in_channels ? harmony_marks::end : marks.end),
                       .is_open = use.format.reasoning_is_open,
                       .tokens = static_cast<std::int32_t>(*tokens),
                       .closing = model.text().encode(parts, false)};
  return make_thought_budget(model.tokenizer, std::move(budget), constraint.get());
}

}  // namespace rocmforge
