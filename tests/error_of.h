#pragma once

#include <exception>
#include <string>
#include <utility>

namespace rocmforge::test {

/// The message of the exception that `body` throws, or "no error".
template <class Body>
std::string error_of(Body&& body) {
  try {
    std::forward<Body>(body)();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace rocmforge::test
