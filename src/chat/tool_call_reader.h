#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/tool_call_styles.h"

namespace rocmforge {

/// Reads one call byte by byte.
class ToolCallReader {
 public:
  enum class Status { reading, done, failed };

  ToolCallReader() = default;
  virtual ~ToolCallReader() = default;
  ToolCallReader(const ToolCallReader&) = delete;
  ToolCallReader& operator=(const ToolCallReader&) = delete;

  /// Reads the next byte. Must not be called after `done` or `failed`.
  Status feed(char c) {
    raw_ += c;
    step(c);
    return status_;
  }
  [[nodiscard]] bool has_name() const { return !name_.empty(); }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// The model's own id of the call, or "".
  [[nodiscard]] const std::string& id() const { return id_; }
  /// Whether the text so far can be a call.
  [[nodiscard]] virtual bool may_be_call() const { return true; }
  /// The JSON text of the arguments since the last call of this function. It is complete only when the status is `done`.
  virtual std::string take_arguments() { return has_name() ? std::exchange(arguments_, "") : ""; }
  /// All text that was fed.
  [[nodiscard]] const std::string& raw() const { return raw_; }

 protected:
  virtual void step(char c) = 0;

  Status status_ = Status::reading;
  std::string name_, id_, arguments_;

 private:
  std::string raw_;
};

/// Makes the reader of a call whose first character is `first`, which is not blank. `tools` is null or has the form of
/// ChatRequest::tools, and must outlive the reader. It provides the types of arguments when the style does not show them.
std::unique_ptr<ToolCallReader> make_tool_call_reader(const ToolCallFormat& format, bool in_list, char first,
                                                      const nlohmann::ordered_json* tools);

/// The reader of ToolCallFormat::Form::gemma.
std::unique_ptr<ToolCallReader> make_gemma_call_reader();

/// The types that a schema or one of its alternatives names. Empty when it names none.
std::vector<std::string> schema_types(const nlohmann::ordered_json& schema);

/// Tracks the brackets and strings of a value that is read byte by byte.
class Nesting {
 public:
  void feed(char c) {
    if (quote_ != 0) {
      quote_ = !escaped_ && c == quote_ ? '\0' : quote_;
      escaped_ = !escaped_ && c == '\\';
      return;
    }
    if (c == '"' || c == '\'') {
      quote_ = c;
      escaped_ = false;
    }
    depth_ += c == '{' || c == '[' || c == '(' ? 1 : 0;
    depth_ -= c == '}' || c == ']' || c == ')' ? 1 : 0;
  }
  [[nodiscard]] bool is_inside() const { return quote_ != 0 || depth_ > 0; }

 private:
  int depth_ = 0;
  char quote_ = '\0';
  bool escaped_ = false;
};

/// The longest name of a function or an argument.
constexpr std::size_t longest_call_name = 256;

}  // namespace rocmforge
