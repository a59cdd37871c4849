#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "prompts.h"

namespace rocmforge::app {

/// The outcome of one request.
struct Reply {
  std::string text;
  FinishReason finish = FinishReason::none;
  std::string error;     ///< why, when finish is FinishReason::error
  bool shifted = false;  ///< older tokens were dropped from the context
  RequestStats stats;
};

/// Runs one request to its end, or until InterruptScope reports Ctrl-C (FinishReason::cancelled). `show` gets the text as it
/// is generated. Long prompts show progress, which counts `batch_tokens` tokens per step.
Reply generate(Engine& engine, Request request, std::int32_t batch_tokens,
               const std::function<void(std::string_view)>& show);

/// "19 prompt tokens, 311 tok/s; 4 generated, 82 tok/s ..." with the peak memory and its parts.
std::string describe(const Reply& reply, Engine& engine);
nlohmann::ordered_json to_json(const Reply& reply, Engine& engine);

}  // namespace rocmforge::app
