#pragma once

#include <string>

#include "chat/tool_call_reader.h"

namespace rocmforge {

/// Reads one call byte by byte: `{"name": "f", "arguments": {...}}`, with "parameters" as another name of "arguments", and
/// perhaps an "id". Other keys are skipped. Arguments that come before the name are held until it is read.
class ToolCallObject final : public ToolCallReader {
 public:
  /// Whether all keys so far are those of a call.
  [[nodiscard]] bool may_be_call() const override { return !has_other_keys_; }
  std::string take_arguments() override;

 private:
  enum class Place { before, key, in_key, colon, value, in_text, in_arguments, in_other, after_value };

  void step(char c) override;
  void begin_value(char c);
  /// Whether a value that is read without being kept has ended before `c`.
  bool ends_before(char c);
  void end_text();
  void end_arguments();

  Place place_ = Place::before;
  std::string key_, value_;
  bool has_arguments_ = false;
  bool has_other_keys_ = false;
  int depth_ = 0;  // number of open brackets inside a value
  bool in_string_ = false;
  bool is_scalar_ = false;  // the value is a number, true, false or null
  bool escaped_ = false;
};

}  // namespace rocmforge
