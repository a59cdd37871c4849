#include "server/api/reasoning_fields.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace rocmforge {
namespace {

constexpr std::int64_t most_tokens = std::int64_t{1} << 30;

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

}  // namespace rocmforge
