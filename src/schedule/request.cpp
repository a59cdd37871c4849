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
    case FinishReason::timeout:
      return "timeout";
    case FinishReason::error:
      return "error";
  }
  fail_check("unknown finish reason");
}

std::string_view name(Pooling pooling) {
  switch (pooling) {
    case Pooling::mean:
      return "mean";
    case Pooling::last:
      return "last";
    case Pooling::cls:
      return "cls";
  }
  fail_check("unknown pooling");
}

}  // namespace rocmforge
