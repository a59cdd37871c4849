#pragma once

#include <ctime>
#include <functional>
#include <string>
#include <string_view>

#include "chat/jinja/statements.h"

namespace rocmforge::jinja {

/// A Jinja template as chat models use it, with trim_blocks, lstrip_blocks, loop controls and the functions that
/// Hugging Face's transformers gives to chat templates. What is supported:
/// - tags: if, for (also recursive, with a condition and else), set (also as a block), macro, call, filter, with, raw,
/// break,
///   continue, generation; no inheritance, no include or import, no autoescape;
/// - all of Jinja's expressions; the filters in *filters.cpp, the tests in tests.cpp, the methods in *methods.cpp, the
///   functions in functions.cpp.
/// Anything else is an error with its line and column. Immutable; safe to use from several threads.
class Template {
 public:
  /// Larger ones are refused: no model's template comes near, and their syntax would fill the memory.
  static constexpr std::size_t largest_source = 4ULL << 20U;
  static constexpr std::size_t most_tokens = 400'000;

  /// Throws TemplateError.
  explicit Template(std::string_view source);

  /// `variables` holds what the template sees by name. Throws TemplateError.
  [[nodiscard]] Text render(const Mapping& variables, const std::function<std::tm()>& clock,
                            const Limits& limits = {}) const;

 private:
  Body body_;
};

}  // namespace rocmforge::jinja
