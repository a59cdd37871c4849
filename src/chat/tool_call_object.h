#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace rocmforge {

/// Reads one call, `{"name": "f", "arguments": {...}}` with "parameters" for "arguments" and perhaps an "id", byte by byte.
/// Other keys are skipped; arguments that come before the name wait for it.
class ToolCallObject {
 public:
  enum class Status { reading, done, failed };

  ToolCallObject() = default;
  /// The arguments alone are read: an object.
  ToolCallObject(std::string name, std::string id)
      : place_(Place::value),
        key_("arguments"),
        name_(std::move(name)),
        id_(std::move(id)),
        has_name_(true),
        is_named_(true) {}

  /// Blanks before the object are part of it. After `done` or `failed` nothing may be fed.
  Status feed(char c);

  [[nodiscard]] Status status() const { return status_; }
  [[nodiscard]] bool has_name() const { return has_name_; }
  /// No key has come that calls do not have.
  [[nodiscard]] bool has_only_keys_of_calls() const { return !has_other_keys_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& id() const { return id_; }
  /// The arguments' text since the last call of this, as far as it is known. All of it only when done.
  std::string take_arguments();
  /// Everything that was fed.
  [[nodiscard]] const std::string& raw() const { return raw_; }

 private:
  enum class Place { before, key, in_key, colon, value, in_text, in_arguments, in_other, after_value };

  void step(char c);
  void begin_value(char c);
  /// Whether a value that is not kept apart ended before `c`.
  bool ends_before(char c);
  void end_text();
  void end_arguments();

  Status status_ = Status::reading;
  Place place_ = Place::before;
  std::string raw_, key_, value_, name_, id_, arguments_;
  bool has_name_ = false;
  bool has_arguments_ = false;
  bool has_other_keys_ = false;
  bool is_named_ = false;  // the object is that of the arguments
  int depth_ = 0;          // of brackets inside a value
  bool in_string_ = false;
  bool is_scalar_ = false;  // the value is a number, true, false or null
  bool escaped_ = false;
};

}  // namespace rocmforge
