#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "service/loop.h"

namespace rocmforge {

/// The limit of running and waiting answers is reached.
class BusyError : public Error {
 public:
  using Error::Error;
};

/// The outcome of one request.
struct WaitedAnswer {
  std::string text{};
  StepOutput last{};
  RequestStats stats{};
  bool shifted = false;  ///< older tokens were dropped from the context
};

/// Submits a request for one answer and waits for its end, in the calling thread, which also calls `take` with the text as
/// it arrives. False cancels the request, which then ends with FinishReason::cancelled. Throws BusyError, Error for a
/// request that can't be served, std::bad_alloc, and what `take` throws.
WaitedAnswer wait_for_answer(EngineLoop& loop, Request request, const std::function<bool(std::string_view)>& take = {});

}  // namespace rocmforge
