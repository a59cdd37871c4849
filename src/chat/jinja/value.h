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

/// A name, key or element that isn't there. Most uses of it are errors, which `reason` explains; where Jinja lets it pass,
/// it is empty text, an empty list, or false.
struct Undefined {
  std::shared_ptr<const std::string> reason;
};
struct None {};
/// Wide enough for almost every integer of a JSON text; LongInteger for the others.
__extension__ typedef __int128 Integer;

using TextPointer = std::shared_ptr<const Text>;
using SequencePointer = std::shared_ptr<const Sequence>;
using MappingPointer = std::shared_ptr<const Mapping>;
using ObjectPointer = std::shared_ptr<Object>;

/// What a Jinja expression stands for. Cheap to copy; texts, sequences and mappings never change once made.
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

  /// Integers and, as in Python, booleans.
  [[nodiscard]] std::optional<Integer> whole() const;
  /// Anything with a value as a number.
  [[nodiscard]] std::optional<double> number() const;
  /// Why an undefined value is undefined.
  [[nodiscard]] std::string reason() const;
  /// Python's name of the type: "str", "dict", "Undefined" ...
  [[nodiscard]] std::string type_name() const;
  /// How deep lists and mappings are nested in it; 0 for everything else.
  [[nodiscard]] std::int32_t depth() const;
  /// About how much work it is to walk it: what it holds, counted again wherever it is held.
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

/// Lists and what Python has beside them. Generators give their items once.
struct Sequence {
  enum class Kind { list, tuple, range, view, generator };
  Sequence(Kind kind, std::vector<Value> items);
  Kind kind;
  std::vector<Value> items;
  std::string_view view_name;  ///< "dict_items" ...
  std::int32_t depth = 1;      ///< 1 more than that of the deepest item
  std::size_t weight = 1;
  mutable bool consumed = false;  ///< a generator whose items were taken
};

/// A dictionary in the order of insertion.
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
  /// Replaces the value of a key that is there. The key must be hashable.
  void set(Value key, Value value);
  void set(std::string_view key, Value value);

 private:
  /// The position of a key, or the number of entries.
  [[nodiscard]] std::size_t locate(const Value& key) const;

  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, std::size_t> index_;  // of the text keys; views into them
  std::int32_t depth_ = 1;
  std::size_t weight_ = 1;
};

/// Numbers, booleans, none, texts and tuples of these can be keys.
bool is_hashable(const Value& value);
/// Python's ==: numbers by value, sequences and mappings by content, objects by identity.
bool equal(const Value& left, const Value& right);
bool is_true(const Value& value);

/// Arguments of a call, filter or test.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Everything with a behaviour of its own: macros, loops, namespaces, functions.
class Object : public std::enable_shared_from_this<Object> {
 public:
  Object() = default;
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  [[nodiscard]] virtual std::string_view type_name() const = 0;
  [[nodiscard]] virtual bool is_callable() const { return false; }
  virtual Value call(Interpreter& run, const Arguments& arguments);
  /// Empty when there is no attribute of that name.
  virtual std::optional<Value> attribute(Interpreter& run, std::string_view name);
  /// How deep values are nested in it, as Value::depth. Objects that the interpreter owns count as 0: it empties them one by
  /// one at its end, whatever they hold.
  [[nodiscard]] virtual std::int32_t depth() const { return 0; }
  /// Drops what it holds.
  virtual void release() {}
};

/// An integer that `Integer` does not hold: it prints as it came, and nothing computes with it.
class LongInteger : public Object {
 public:
  explicit LongInteger(std::string digits) : digits_(std::move(digits)) {}
  [[nodiscard]] std::string_view type_name() const override { return "int"; }
  [[nodiscard]] const std::string& digits() const { return digits_; }

 private:
  std::string digits_;
};

/// What `namespace()` makes: the one thing a template can change.
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
