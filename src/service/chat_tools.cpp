#include "service/chat_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "grammar/byte_automaton.h"
#include "service/constraints.h"
#include "service/reading.h"
#include "service/service_error.h"

namespace rocmforge {
namespace {

ServiceError invalid(std::string message, std::string field) {
  return ServiceError(ServiceError::Kind::invalid, std::move(message), std::move(field));
}

std::string name_of(const Json& tool) { return tool.at("function").at("name").get<std::string>(); }

/// A grammar of calls and what it was compiled to; its own `grammar` is moved there.
struct CompiledTools {
  ToolGrammar grammar;
  std::shared_ptr<GrammarMatcher> matcher;
};

/// Makes the grammar of tools. A tool whose schema can't be enforced takes any JSON object as arguments, and is added to
/// `relaxed`; it does not change what other tools take. Throws ServiceError if such a tool is strict.
class ToolGrammarMaker {
 public:
  ToolGrammarMaker(ToolCallStyle style, Json tools, ToolChoice choice, GrammarCache& grammars, Reading& reading)
      : style_(style), tools_(std::move(tools)), choice_(std::move(choice)), grammars_(grammars), reading_(reading) {}

  CompiledTools make() {
    try {
      return compile();
    } catch (const Error& error) {
      const bool known = choice_.name.empty() ||
                         std::ranges::any_of(tools_, [&](const Json& tool) { return name_of(tool) == choice_.name; });
      if (!known) {
        throw invalid(error.what(), "tool_choice");
      }
    }
    for (Json& tool : tools_) {
      if (choice_.name.empty() || name_of(tool) == choice_.name) {
        relax_unsupported(tool);
      }
    }
    try {
      return compile();
    } catch (const Error& error) {
      return make_without_schemas(error);
    }
  }

  [[nodiscard]] const std::vector<std::string>& relaxed() const { return relaxed_; }

 private:
  CompiledTools compile() {
    CompiledTools made{.grammar = make_tool_grammar(style_, tools_, choice_, reading_.budget), .matcher = nullptr};
    made.matcher = held_grammar(std::move(made.grammar.grammar), grammars_, reading_);
    return made;
  }

  void relax_unsupported(Json& tool) {
    try {
      const ToolGrammar made = make_tool_grammar(style_, Json::array({tool}), {.is_required = true}, reading_.budget);
      WorkBudget budget(grammar_compile_units, "grammar: compiling it", &reading_.budget);
      static_cast<void>(ByteAutomaton(made.grammar, budget));
    } catch (const Error& error) {
      relax(tool, error);
    }
  }

  void relax(Json& tool, const Error& error) {
    Json& function = tool["function"];
    if (function.value("strict", Json(false)) == Json(true)) {
      throw invalid(fmt::format("tools: '{}': {}", name_of(tool), error.what()), "tools");
    }
    function["parameters"] = {{"type", "object"}};
    relaxed_.push_back(name_of(tool));
  }

  /// For schemas that can be enforced alone but are too much together.
  CompiledTools make_without_schemas(const Error& reason) {
    for (Json& tool : tools_) {
      if (std::ranges::find(relaxed_, name_of(tool)) == relaxed_.end()) {
        relax(tool, reason);
      }
    }
    try {
      return compile();
    } catch (const Error& error) {
      throw invalid(fmt::format("tools: {}", error.what()), "tools");
    }
  }

  ToolCallStyle style_;
  Json tools_;
  ToolChoice choice_;
  GrammarCache& grammars_;
  Reading& reading_;
  std::vector<std::string> relaxed_;
};

/// Reasoning, in which no call begins. Messages of the harmony format have channels instead.
LeadingThought leading_thought(const AnswerFormat& format) {
  if (format.in_channels) {
    return {};
  }
  return {std::string(format.reasoning.begin), std::string(format.reasoning.end), format.reasoning_is_open};
}

}  // namespace

ToolUse prepare_tools(ChatCall& call, bool splits_reasoning, const Tokenizer& tokenizer, GrammarCache& grammars,
                      Reading& reading) {
  const Conversation& conversation = call.conversation;
  const ToolSelection& selection = conversation.selection;
  ToolUse use;
  use.format.splits_reasoning = splits_reasoning;
  use.format.reasoning_is_open = call.prompt.reasoning_is_open;
  use.format.reasoning = call.prompt.reasoning;
  use.format.in_channels = call.prompt.in_channels;
  use.format.header_is_open = call.prompt.header_is_open;
  if (!conversation.tools || conversation.tools->empty() || selection.none) {
    return use;
  }
  Json tools = Json::array();
  for (const Tool& tool : *conversation.tools) {
    if (selection.allowed.empty() || std::ranges::count(selection.allowed, tool.name) > 0) {
      tools.push_back(tool.declaration);
      use.format.tool_names.push_back(tool.name);
    }
  }
  if (tools.empty()) {
    throw invalid("tool_choice allows none of the tools", "tool_choice");
  }
  use.format.has_tools = true;
  use.format.single_call = selection.choice.is_single();
  use.format.tools = std::make_shared<const Json>(tools);
  use.format.style = detect_tool_call_style(*call.chat_template);
  ToolGrammarMaker maker(use.format.style, std::move(tools), selection.choice, grammars, reading);
  const auto [grammar, matcher] = maker.make();
  use.relaxed = maker.relaxed();
  for (const Tool& tool : *conversation.tools) {
    const bool is_offered = std::ranges::count(use.format.tool_names, tool.name) > 0;
    if (tool.is_relaxed && is_offered && std::ranges::count(use.relaxed, tool.name) == 0) {
      use.relaxed.push_back(tool.name);
    }
  }
  if (selection.choice.is_required) {
    // A required call leaves no room for reasoning.
    const bool open = std::exchange(use.format.reasoning_is_open, false);
    const std::string thoughts_end = open ? fmt::format("\n{}\n\n", use.format.reasoning.end) : "";
    call.prompt.segments.push_back({thoughts_end + grammar.opening, true});
    use.opening = grammar.opening;
    use.constraint = make_grammar_constraint(matcher);
    return use;
  }
  GrammarTrigger trigger{.text = grammar.trigger,
                         .at_start_only = grammar.trigger_at_start_only,
                         .text_is_part_of_grammar = grammar.trigger_is_part_of_grammar,
                         .thought = leading_thought(use.format),
                         .repeats = grammar.repeats};
  if (const std::int32_t token = tokenizer.find(grammar.trigger); token >= 0) {
    trigger.tokens.push_back(token);
  }
  use.constraint = make_lazy_grammar_constraint(matcher, trigger);
  use.calls = matcher;
  use.trigger = std::move(trigger);
  return use;
}

}  // namespace rocmforge
