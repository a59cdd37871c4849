#pragma once

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

/// Fields of a request that nobody has asked for.
struct UnknownFields {
  static constexpr std::size_t most_names = 32;

  std::vector<std::string> names;  ///< the first of them, each cut where it is long
  std::size_t count = 0;           ///< all of them
};

/// Reads the members of a JSON object and remembers which were asked for, so that finish() can tell the rest: a field that
/// nobody reads must not look as if it had worked. A null counts as absent. Every problem is an ApiError(400) that names the
/// field in `param`.
class Fields {
 public:
  /// `path` comes before the names: "response_format." Throws when `object` is no object. `object` stays in use.
  explicit Fields(const Json& object, std::string path = {});
  /// Those of an object inside this one, whose unknown fields count as this one's.
  [[nodiscard]] Fields inner(const Json& object, std::string path) const;

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
  // What must be there.
  std::string needed_text(std::string_view name);
  std::string needed_choice(std::string_view name, std::initializer_list<std::string_view> values);
  const Json& needed_object(std::string_view name);

  /// Fields that change no result; any value is fine.
  void ignore(std::initializer_list<std::string_view> names);
  /// A field that is known and not served. `neutral` is an array of the values that ask for nothing and are fine.
  void refuse_unless(std::string_view name, const Json& neutral, std::string_view reason);
  /// A field that only asks for more information and is not served: other values than the neutral ones make it unknown.
  void ignore_unless(std::string_view name, const Json& neutral);
  [[nodiscard]] bool was_asked_for(std::string_view name) const { return known_.contains(std::string(name)); }
  /// Adds what nobody has asked for to unknown().
  void finish();
  /// Of this object and the inner ones.
  [[nodiscard]] const UnknownFields& unknown() const { return *unknown_; }

  /// An error about a field: "top_p is 1.5, must be ...".
  [[noreturn]] void fail(std::string_view name, std::string_view problem) const;
  [[nodiscard]] std::string full_name(std::string_view name) const { return path_ + std::string(name); }

 private:
  const Json* object_;
  std::map<std::string_view, const Json*> members_;  // no hash table: who writes the names could make them collide
  std::string path_;
  std::unordered_set<std::string> known_;
  std::shared_ptr<UnknownFields> unknown_;
};

}  // namespace rocmforge
