#pragma once

#include <memory>
#include <string>
#include <vector>

#include "chat/tool_grammar.h"
#include "grammar/cache.h"
#include "grammar/grammar_constraint.h"
#include "grammar/token_constraint.h"
#include "service/chat_prompt.h"

namespace rocmforge {

/// What tools mean for an answer.
struct ToolUse {
  AnswerFormat format;    ///< for the parser
  std::string opening{};  ///< the beginning of a required call, which ends the prompt; the parser gets it first
  std::shared_ptr<const TokenConstraint> constraint{};  ///< null where the model has no tools
  std::shared_ptr<GrammarMatcher> calls{};  ///< the grammar of calls, null where no tool is there or a call is required
  GrammarTrigger trigger{};                 ///< what begins it
  std::vector<std::string> relaxed{};       ///< the names of tools whose schema or syntax does not bind the answer
};

/// Chooses the answer's format. Where a call is required, puts its beginning at the end of the prompt.
/// `splits_reasoning`: text between <think> and </think> is not content. Throws ServiceError for a `strict` tool whose
/// schema is not supported; the arguments of a tool that is not strict are then any JSON object (ToolUse::relaxed).
ToolUse prepare_tools(ChatCall& call, bool splits_reasoning, const Tokenizer& tokenizer, GrammarCache& grammars,
                      Reading& reading);

}  // namespace rocmforge
