#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "server/api/json.h"

namespace rocmforge {

/// Reads the members of a JSON object and remembers which were asked for, so that finish() can refuse the rest: a field that
/// nobody reads must not look as if it had worked. A null counts as absent. Every problem is an ApiError(400) that names the
/// field in `param`.
class Fields {
 public:
  /// `path` comes before the names: "response_format." Throws when `object` is no object.
  explicit Fields(const Json& object, std::string path = {});

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

  /// Fields that change no result; any value is fine.
  void ignore(std::initializer_list<std::string_view> names);
  /// A field that is known and not served.
  void refuse(std::string_view name, std::string_view reason);
  /// Refuses what nobody has asked for.
  void finish();

  /// An error about a field: "top_p is 1.5, must be ...".
  [[noreturn]] void fail(std::string_view name, std::string_view problem) const;
  [[nodiscard]] std::string full_name(std::string_view name) const { return path_ + std::string(name); }

 private:
  const Json& object_;
  std::string path_;
  std::unordered_set<std::string> known_;
};

}  // namespace rocmforge
