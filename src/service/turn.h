#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chat/answer_parser.h"
#include "chat/conversation.h"
#include "schedule/request.h"
#include "service/constraints.h"
#include "service/images.h"
#include "service/model.h"
#include "service/reading.h"

namespace rocmforge {

/// What is asked of a model: an answer to a conversation, by whatever API or command.
struct TurnRequest {
  Conversation conversation{};
  Request request{};  ///< sampling and limits; prompt and constraint are empty
  std::optional<AnswerGrammar> grammar{};
  bool splits_reasoning = true;              ///< reasoning is not content
  const ChatTemplates* templates = nullptr;  ///< in place of the model's own; used by make_turn() alone
};

/// A conversation ready for the engine, and how its answers are read.
struct Turn {
  Conversation conversation{};
  Request request{};
  /// Of the prompt, in the order of their places; empty where the model's own encoder takes them: then the request has them.
  std::vector<PromptImage> images{};
  double sound_seconds = 0.0;          ///< of its recordings
  AnswerFormat format{};               ///< for AnswerParser
  std::string opening{};               ///< the beginning of a required call, which ends the prompt; the parser gets it first
  std::vector<std::string> relaxed{};  ///< the names of tools whose schema or syntax does not bind the answer
};

/// Renders and encodes the prompt; decodes its images; makes the constraint of the answer from its tools, its grammar and
/// the limit of its reasoning. Throws ServiceError, and Error where the work is too much.
Turn make_turn(TurnRequest asked, ModelInstance& model, Reading& reading);

}  // namespace rocmforge
