#pragma once

#include <memory>
#include <string>
#include <vector>

#include "chat/tool_grammar.h"
#include "schedule/token_constraint.h"
#include "server/api/chat_prompt.h"

namespace rocmforge {

/// `tool_choice` and `parallel_tool_calls`.
struct ToolSelection {
  bool none = false;  ///< the model is shown no tool
  ToolChoice choice{};
  std::vector<std::string> allowed{};  ///< the names of allowed_tools; none: all
};

/// Throws ApiError(400).
ToolSelection read_tool_choice(Fields& fields);

/// What tools mean for an answer.
struct ToolUse {
  AnswerFormat format;                                  ///< for the parser
  std::string opening{};                                ///< has been put at the prompt's end; the parser takes it first
  std::shared_ptr<const TokenConstraint> constraint{};  ///< null where the model has no tools
};

/// Reads what the answer's form will be and, where a call is required, ends the prompt with its beginning.
/// `splits_reasoning`: text between <think> and </think> is not content. Throws ApiError(400) for a tool whose schema can't
/// be kept to although it is `strict`; the arguments of others are then any JSON object.
ToolUse prepare_tools(ChatCall& call, const ToolSelection& selection, bool splits_reasoning, const Backend& backend,
                      Exchange& exchange);

}  // namespace rocmforge
