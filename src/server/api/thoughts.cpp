#include "server/api/thoughts.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "grammar/thought_budget.h"
#include "tokenizer/answer_formats.h"

namespace rocmforge {
namespace {

constexpr std::int64_t most_tokens = std::int64_t{1} << 30;

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

void read_thinking(Fields& fields, Reasoning& reasoning) {
  reasoning.effort = fields.text("reasoning_effort");
  if (const Json* given = fields.object("thinking")) {
    Fields thinking = fields.inner(*given, "thinking.");
    reasoning.is_on = thinking.needed_choice("type", {"enabled", "disabled", "adaptive"}) != "disabled";
    thinking.ignore({"budget_tokens", "display"});  // the first is a limit
    thinking.finish();
  }
}

void read_reasoning_limit(Fields& fields, std::string_view name, Reasoning& reasoning) {
  const auto tokens = fields.integer(name, -1, most_tokens);
  if (!tokens) {
    return;
  }
  if (reasoning.budget && *tokens != *reasoning.budget) {
    fields.fail(name, fmt::format("is {}, but {} is {}", *tokens, reasoning.budget_field, *reasoning.budget));
  }
  reasoning.budget = tokens;
  reasoning.budget_field = fields.full_name(name);
}

void read_reasoning_limits(Fields& fields, Reasoning& reasoning) {
  for (const std::string_view name : {"reasoning_budget", "thinking_budget_tokens", "thinking_token_budget"}) {
    read_reasoning_limit(fields, name, reasoning);
  }
  if (const Json* thinking = fields.object("thinking")) {
    Fields inner(*thinking, "thinking.");
    read_reasoning_limit(inner, "budget_tokens", reasoning);
  }
}

std::shared_ptr<const TokenConstraint> bound_thoughts(const Reasoning& reasoning, const ToolUse& use,
                                                      const ServedModel& model,
                                                      std::shared_ptr<const TokenConstraint> constraint) {
  if (!reasoning.budget || *reasoning.budget < 0) {
    return constraint;
  }
  const ReasoningMarks& marks = use.format.reasoning;
  const std::string closing = closing_of(use, constraint != nullptr);
  const std::array parts = {Tokenizer::TextPart{closing, true}};
  ThoughtBudget budget{.begin = std::string(marks.begin),
                       .end = std::string(use.format.in_channels ? harmony_marks::end : marks.end),
                       .is_open = use.format.reasoning_is_open,
                       .tokens = static_cast<std::int32_t>(*reasoning.budget),
                       .closing = model.text().encode(parts, false)};
  return make_thought_budget(model.tokenizer, std::move(budget), constraint.get());
}

}  // namespace rocmforge
