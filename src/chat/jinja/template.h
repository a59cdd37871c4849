#pragma once

#include <ctime>
#include <functional>
#include <string>
#include <string_view>

#include "chat/jinja/statements.h"

namespace rocmforge::jinja {

/// A Jinja template as chat models use it, with trim_blocks, lstrip_blocks, loop controls and the functions that
/// Hugging Face's transformers provides to chat templates. It supports:
/// - tags: if, for (also recursive, with a condition and else), set (also as a block), macro, call, filter, with, raw,
///   break, continue, generation; no inheritance, no include or import, no autoescape;
/// - all expressions of Jinja; the filters in *filters.cpp, the tests in tests.cpp, the methods in *methods.cpp, and the
///   functions in functions.cpp.
/// Anything else is an error with its line and column. Immutable: several threads may use it at the same time.
class Template {
 public:
  /// Larger templates are refused: their syntax trees would need too much memory. The templates of models are far smaller.
  static constexpr std::size_t largest_source = 4ULL << 20U;
  static constexpr std::size_t most_tokens = 400'000;

  /// Throws TemplateError for a template that can't be read.
  explicit Template(std::string_view source);

  /// Renders the template with `variables` as its global names. Throws TemplateError.
  [[nodiscard]] Text render(const Mapping& variables, const std::function<std::tm()>& clock,
                            const Limits& limits = {}) const;

 private:
  Body body_;
};

}  // namespace rocmforge::jinja
