#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace rocmforge::jinja {

/// A position in a template. Line and column count from 1; columns count characters.
struct Position {
  std::int32_t line = 1;
  std::int32_t column = 1;
};

/// An error of reading or rendering a template: "line 3, column 7: there is no filter 'x'".
class TemplateError : public Error {
 public:
  TemplateError(Position position, const std::string& message, bool raised = false)
      : Error("line " + std::to_string(position.line) + ", column " + std::to_string(position.column) + ": " + message),
        position_(position),
        message_(message),
        raised_(raised) {}

  [[nodiscard]] Position position() const { return position_; }
  /// The message without the position.
  [[nodiscard]] const std::string& message() const { return message_; }
  /// Whether the template itself refused the conversation by raise_exception.
  [[nodiscard]] bool raised() const { return raised_; }

 private:
  Position position_;
  std::string message_;
  bool raised_;
};

}  // namespace rocmforge::jinja
