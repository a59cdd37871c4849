#pragma once

#include <string>

#include "base/error.h"

namespace rocmforge::testing {

/// The message of the Error that `body` throws, or "no error".
template <class Body>
std::string error_text(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace rocmforge::testing
