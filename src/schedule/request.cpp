#include "schedule/request.h"

#include "base/error.h"

namespace rocmforge {

std::string_view name(FinishReason reason) {
  switch (reason) {
    case FinishReason::none:
      return "none";
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::context:
      return "context";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::error:
      return "error";
  }
  fail_check("unknown finish reason");
}

}  // namespace rocmforge
