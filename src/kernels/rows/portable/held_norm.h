#pragma once

#include <cstdint>

#include "kernels/rows/portable/elementwise_args.h"

namespace rocmforge::gpu {

/// A launch that a stream holds back (HeldLaunch), where a norm of one row may be its next call.
class TakesNorm {
 public:
  /// Takes it in; false when it can't. `threads`: of the norm's work-group alone, which the order of its sum depends on.
  virtual bool join(const RmsNormArgs& norm, std::uint32_t threads) = 0;

 protected:
  ~TakesNorm() = default;
};

}  // namespace rocmforge::gpu
