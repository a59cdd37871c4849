#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "chat/jinja/text.h"

namespace rocmforge::jinja {

class Interpreter;
class Mapping;
class Object;
class Value;
struct Sequence;

/// A name, key or element that does not exist. Most uses of it are errors, which `reason` explains. In the others, as in
/// Jinja, it is empty text, an empty list, or false.
struct Undefined {
  std::shared_ptr<const std::string> reason;
};
struct None {};
/// Wide enough for almost all integers in JSON. LongInteger holds the others.
__extension__ typedef __int128 Integer;

using TextPointer = std::shared_ptr<const Text>;
using SequencePointer = std::shared_ptr<const Sequence>;
using MappingPointer = std::shared_ptr<const Mapping>;
using ObjectPointer = std::shared_ptr<Object>;

/// The value of a Jinja expression. Cheap to copy. Texts, sequences and mappings are never changed after they are made.
class Value {
 public:
  Value() = default;
  explicit Value(None none) : data_(none) {}
  explicit Value(Undefined undefined) : data_(std::move(undefined)) {}
  explicit Value(TextPointer text) : data_(std::move(text)) {}
  explicit Value(SequencePointer sequence) : data_(std::move(sequence)) {}
  explicit Value(MappingPointer mapping) : data_(std::move(mapping)) {}
  explicit Value(ObjectPointer object) : data_(std::move(object)) {}
  static Value boolean(bool value) { return Value(Data(value)); }
  static Value integer(Integer value) { return Value(Data(value)); }
  static Value real(double value) { return Value(Data(value)); }
  static Value text(Text text) { return Value(std::make_shared<const Text>(std::move(text))); }
  static Value undefined(std::string reason) {
    return Value(Undefined{std::make_shared<const std::string>(std::move(reason))});
  }

  [[nodiscard]] bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  [[nodiscard]] bool is_none() const { return std::holds_alternative<None>(data_); }
  [[nodiscard]] const bool* boolean() const { return std::get_if<bool>(&data_); }
  [[nodiscard]] const Integer* integer() const { return std::get_if<Integer>(&data_); }
  [[nodiscard]] const double* real() const { return std::get_if<double>(&data_); }
  [[nodiscard]] const Text* text() const { return pointee<const Text>(); }
  [[nodiscard]] const Sequence* sequence() const { return pointee<const Sequence>(); }
  [[nodiscard]] const Mapping* mapping() const { return pointee<const Mapping>(); }
  [[nodiscard]] Object* object() const { return pointee<Object>(); }

  /// The value of an integer or, as in Python, of a boolean.
  [[nodiscard]] std::optional<Integer> whole() const;
  /// The value of a number or boolean as a double.
  [[nodiscard]] std::optional<double> number() const;
  /// Why an undefined value is undefined.
  [[nodiscard]] std::string reason() const;
  /// Python's name of the type: "str", "dict", "Undefined" ...
  [[nodiscard]] std::string type_name() const;
  /// The number of levels of nested lists and mappings; 0 for other values.
  [[nodiscard]] std::int32_t depth() const;
  /// A measure of the work of visiting the whole value. A part that is held several times is counted each time.
  [[nodiscard]] std::size_t weight() const;

 private:
  using Data =
      std::variant<Undefined, None, bool, Integer, double, TextPointer, SequencePointer, MappingPointer, ObjectPointer>;
  explicit Value(Data data) : data_(std::move(data)) {}
  template <class Held>
  [[nodiscard]] Held* pointee() const {
    const auto* pointer = std::get_if<std::shared_ptr<Held>>(&data_);
    return pointer == nullptr ? nullptr : pointer->get();
  }

  Data data_;
};

/// Lists and Python's other sequences. A generator returns its items only once.
struct Sequence {
  enum class Kind { list, tuple, range, view, generator };
  Sequence(Kind kind, std::vector<Value> items);
  Kind kind;
  std::vector<Value> items;
  std::string_view view_name;  ///< "dict_items" ...
  std::int32_t depth = 1;      ///< 1 more than the depth of the deepest item
  std::size_t weight = 1;
  mutable bool consumed = false;  ///< the items of this generator were taken
};

/// A dictionary in insertion order.
class Mapping {
 public:
  using Entry = std::pair<Value, Value>;
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::int32_t depth() const { return depth_; }
  [[nodiscard]] std::size_t weight() const { return weight_; }
  /// The value of a key, or null.
  [[nodiscard]] const Value* find(std::string_view key) const;
  [[nodiscard]] const Value* find(const Value& key) const;
  /// Sets the value of a new or existing key, which must be hashable.
  void set(Value key, Value value);
  void set(std::string_view key, Value value);

 private:
  /// The index of the entry with this key, or the number of entries.
  [[nodiscard]] std::size_t locate(const Value& key) const;

  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, std::size_t> index_;  // for text keys; views of these
  std::int32_t depth_ = 1;
  std::size_t weight_ = 1;
};

/// Whether a value can be a key: numbers, booleans, none, texts, objects, and tuples of these.
bool is_hashable(const Value& value);
/// Python's ==: numbers by value, sequences and mappings by content, objects by identity.
bool equal(const Value& left, const Value& right);
bool is_true(const Value& value);

/// The arguments of a call, filter or test.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Values with behaviour: macros, loops, namespaces, functions.
class Object : public std::enable_shared_from_this<Object> {
 public:
  Object() = default;
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  [[nodiscard]] virtual std::string_view type_name() const = 0;
  [[nodiscard]] virtual bool is_callable() const { return false; }
  virtual Value call(Interpreter& run, const Arguments& arguments);
  /// Empty when there is no such attribute.
  virtual std::optional<Value> attribute(Interpreter& run, std::string_view name);
  /// The depth of nested values, as Value::depth. Objects that the interpreter owns count as 0, because it empties them one
  /// by one at its end.
  [[nodiscard]] virtual std::int32_t depth() const { return 0; }
  /// Releases the values that it holds.
  virtual void release() {}
};

/// An integer that `Integer` can't hold. It is written as it was read, and can't be used in arithmetic.
class LongInteger : public Object {
 public:
  explicit LongInteger(std::string digits) : digits_(std::move(digits)) {}
  [[nodiscard]] std::string_view type_name() const override { return "int"; }
  [[nodiscard]] const std::string& digits() const { return digits_; }

 private:
  std::string digits_;
};

/// The result of `namespace()`, the only value that a template can change.
class Namespace : public Object {
 public:
  [[nodiscard]] std::string_view type_name() const override { return "Namespace"; }
  std::optional<Value> attribute(Interpreter& run, std::string_view name) override;
  [[nodiscard]] const Mapping& values() const { return values_; }
  void set(std::string_view name, Value value) { values_.set(name, std::move(value)); }
  void release() override { values_ = Mapping(); }

 private:
  Mapping values_;
};

}  // namespace rocmforge::jinja
