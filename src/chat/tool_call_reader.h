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

  /// After `done` or `failed` nothing may be fed.
  Status feed(char c) {
    raw_ += c;
    step(c);
    return status_;
  }
  [[nodiscard]] bool has_name() const { return !name_.empty(); }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// What the model calls the call, "" for nothing.
  [[nodiscard]] const std::string& id() const { return id_; }
  /// Nothing has come that calls do not have.
  [[nodiscard]] virtual bool may_be_call() const { return true; }
  /// The arguments' JSON text since the last call of this, as far as it is known. All of it only when done.
  virtual std::string take_arguments() { return has_name() ? std::exchange(arguments_, "") : ""; }
  /// Everything that was fed.
  [[nodiscard]] const std::string& raw() const { return raw_; }

 protected:
  virtual void step(char c) = 0;

  Status status_ = Status::reading;
  std::string name_, id_, arguments_;

 private:
  std::string raw_;
};

/// The reader for a call whose first character is `first`, which is not blank. `tools`, as in ChatRequest or null, tell the
/// types of arguments where the style does not; they must outlive the reader.
std::unique_ptr<ToolCallReader> make_tool_call_reader(const ToolCallFormat& format, bool in_list, char first,
                                                      const nlohmann::ordered_json* tools);

/// The reader of ToolCallFormat::Form::gemma.
std::unique_ptr<ToolCallReader> make_gemma_call_reader();

/// The types that a schema names, itself or one of its alternatives; none where it does not say.
std::vector<std::string> schema_types(const nlohmann::ordered_json& schema);

/// Follows the brackets and strings of a value that is read byte by byte.
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

/// A function's or an argument's name is no longer.
constexpr std::size_t longest_call_name = 256;

}  // namespace rocmforge
