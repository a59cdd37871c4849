#pragma once

#include "base/error.h"

namespace rocmforge::app {

/// A wrong command line: one line on standard error and exit code 2. Every other Error ends with exit code 1.
class UsageError : public Error {
 public:
  using Error::Error;
};

}  // namespace rocmforge::app
