#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "server/api/json.h"

namespace rocmforge {

/// Fields of a request that no reader used.
struct UnknownFields {
  static constexpr std::size_t most_names = 32;

  std::vector<std::string> names;  ///< the first of them, long ones cut
  std::size_t count = 0;           ///< of all unknown fields
};

/// Reads the members of a JSON object and remembers which were read, so that finish() can report the others: an ignored
/// field must not look as if it had worked. A null counts as absent. Every problem is an ApiError(400) that names the field
/// in `param`.
class Fields {
 public:
  /// `path` precedes the names: "response_format." Throws when `object` is not an object. `object` must outlive this.
  explicit Fields(const Json& object, std::string path = {});
  /// The fields of an object inside this one; its unknown fields count as this one's.
  [[nodiscard]] Fields inner(const Json& object, std::string path) const;
  /// The fields of the object at `index` of the array that is the member `name`.
  [[nodiscard]] Fields element(std::string_view name, const Json& array, std::size_t index) const;
  /// Calls act(Fields&) for each object of an array, which is the member `name`; not at all for null.
  template <class Act>
  void each(std::string_view name, const Json* array, Act&& act) const {
    for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
      Fields fields = element(name, *array, i);
      act(fields);
    }
  }

  [[nodiscard]] const Json& json() const { return *object_; }

  /// Null when absent.
  const Json* find(std::string_view name);
  [[nodiscard]] bool has(std::string_view name) { return find(name) != nullptr; }

  std::optional<bool> boolean(std::string_view name);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t least, std::int64_t most);
  std::optional<double> number(std::string_view name, double least, double most);
  std::optional<std::string> text(std::string_view name);
  /// One of `values`.
  std::optional<std::string> choice(std::string_view name, std::initializer_list<std::string_view> values);
  const Json* array(std::string_view name);
  const Json* object(std::string_view name);
  // The same for fields that must be present.
  std::string needed_text(std::string_view name);
  std::string needed_choice(std::string_view name, std::initializer_list<std::string_view> values);
  const Json& needed_object(std::string_view name);

  /// Accepts fields that change no result, with any value.
  void ignore(std::initializer_list<std::string_view> names);
  /// A known field that is not served. `neutral` is an array of the values that have no effect; they are accepted.
  void refuse_unless(std::string_view name, const Json& neutral, std::string_view reason);
  /// The same for a field that only asks for more information: with another value it counts as unknown.
  void ignore_unless(std::string_view name, const Json& neutral);
  [[nodiscard]] bool was_asked_for(std::string_view name) const { return known_.contains(std::string(name)); }
  /// Counts `name` as unknown, though it was read: it was left out, or shown to the model in another form.
  void note(std::string_view name);
  /// Adds the members that were not read to unknown().
  void finish();
  /// Of this object and the objects inside it.
  [[nodiscard]] const UnknownFields& unknown() const { return *unknown_; }

  /// An error about a field: "top_p is 1.5, must be ...".
  [[noreturn]] void fail(std::string_view name, std::string_view problem) const;
  [[nodiscard]] std::string full_name(std::string_view name) const { return path_ + std::string(name); }

 private:
  const Json* object_;
  std::map<std::string_view, const Json*> members_;  // not a hash table: a client could choose names that collide
  std::string path_;
  std::unordered_set<std::string> known_;
  std::shared_ptr<UnknownFields> unknown_;
};

}  // namespace rocmforge
