#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace rocmforge {

/// An error in a file, a configuration or a device. The message is one line for the user. Callers add context in front:
/// `throw Error("offset 96 is past the end").in("tensor 'output.weight'").in("model.gguf")` reads "model.gguf: tensor
/// 'output.weight': offset 96 is past the end".
class Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)) {}

  Error& in(std::string_view context) & {
    message_.insert(0, std::string(context) + ": ");
    return *this;
  }
  Error&& in(std::string_view context) && {
    message_.insert(0, std::string(context) + ": ");
    return std::move(*this);
  }

  [[nodiscard]] const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

/// Runs `body` and returns its result. If it throws an Error, or a class derived from it, `context` is put in front of the
/// message.
template <class Body>
decltype(auto) with_context(std::string_view context, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (Error& error) {
    error.in(context);
    throw;  // the exception may be of a class derived from Error
  }
}

/// A broken precondition: an error in the calling code, never in the user's input.
class LogicError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// The built-in functions of the compiler give the location of the caller, because Clang 14 lacks std::source_location.
[[noreturn]] void fail_check(std::string_view message, const char* file = __builtin_FILE(), int line = __builtin_LINE());

/// Throws LogicError with file and line when `condition` is false.
inline void check(bool condition, std::string_view message, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (!condition) [[unlikely]] {
    fail_check(message, file, line);
  }
}

}  // namespace rocmforge
