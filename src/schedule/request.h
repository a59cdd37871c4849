#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/sampling_params.h"

namespace rocmforge {

using RequestId = std::uint64_t;

enum class FinishReason {
  none,     ///< still running
  stop,     ///< an end-of-generation token or a stop string
  length,   ///< max_tokens reached
  context,  ///< the context is full
  cancelled,
  error,
};

std::string_view name(FinishReason reason);

/// What happens when a sequence reaches the model's context length.
enum class ContextPolicy {
  stop,   ///< finish with FinishReason::context
  shift,  ///< drop the older half after `keep` tokens, recompute the rest and go on; reported in the output
};

struct Request {
  std::vector<std::int32_t> prompt{};
  SamplingParams sampling{};
  std::int32_t max_tokens = -1;     ///< -1: until an end token or the context's end
  std::vector<std::string> stop{};  ///< text at which the answer ends (the text itself is not part of the answer)
  bool ignore_eos = false;
  ContextPolicy context_policy = ContextPolicy::stop;
  std::int32_t keep = 0;  ///< prompt tokens that a shift never drops
};

}  // namespace rocmforge
