#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "service/model.h"
#include "service/turn.h"

namespace rocmforge::app {

/// The outcome of one request.
struct Reply {
  std::string text;                ///< as the model wrote it
  std::string content, reasoning;  ///< its parts
  std::vector<ToolCall> calls;     ///< the whole ones
  FinishReason finish = FinishReason::none;
  std::string error;     ///< why, when finish is FinishReason::error
  bool shifted = false;  ///< older tokens were dropped from the context
  RequestStats stats;
};

/// Waits for the answer to a turn, or until InterruptScope reports Ctrl-C (FinishReason::cancelled). `show` gets the parts
/// of the answer as they are generated. A long prompt shows its progress. `number` makes the ids of calls to which the model
/// gives none: that of the first.
Reply generate(ModelInstance& model, const Turn& turn, const std::function<void(const AnswerDelta&)>& show,
               std::uint64_t number = 0);

/// Names the tools whose schema does not bind the answer, on standard error.
void tell_relaxed_tools(const Turn& turn);

/// "19 prompt tokens, 311 tok/s; 4 generated, 82 tok/s ..." with the peak memory and its parts.
std::string describe(const Reply& reply, Engine& engine);
nlohmann::ordered_json to_json(const Reply& reply, Engine& engine);

}  // namespace rocmforge::app
