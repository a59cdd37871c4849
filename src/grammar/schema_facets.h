#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "base/work_budget.h"
#include "grammar/decimal_range.h"
#include "grammar/schema_ids.h"
#include "grammar/text_nfa.h"

namespace rocmforge {

/// Schemas that a value must all satisfy: nodes of a document, ascending and each once. None: any value.
using SchemaNodes = std::vector<const nlohmann::ordered_json*>;

/// The schemas of both.
SchemaNodes join(SchemaNodes a, const SchemaNodes& b);

/// JSON's types as bits of a set. A number may be an integer, so `schema_number` is never set without `schema_integer`.
enum SchemaType : std::uint8_t {
  schema_null = 1,
  schema_boolean = 2,
  schema_integer = 4,
  schema_number = 8,
  schema_string = 16,
  schema_array = 32,
  schema_object = 64,
  schema_any = 127,
};

/// Keywords that combine schemas; SchemaDocument resolves them.
inline constexpr std::array<std::string_view, 4> combining_keywords = {"$ref", "allOf", "anyOf", "oneOf"};

/// What a schema with `patternProperties` says of the properties that it does not list.
struct PatternScope {
  std::vector<std::pair<std::string, SchemaNodes>> patterns{};
  std::optional<SchemaNodes> additional{};  ///< of properties that no pattern matches; none: not given
  bool closed = false;                      ///< only properties that a pattern matches are allowed
};

/// The constraints of a schema on a value, without references and combinations.
struct SchemaFacets {
  static constexpr std::uint64_t unbounded = UINT64_MAX;

  std::uint8_t types = schema_any;
  std::optional<std::vector<nlohmann::ordered_json>> values{};  ///< enum and const
  std::vector<nlohmann::ordered_json> excluded{};               ///< enum and const inside `not`

  DecimalRange range{};
  std::vector<Decimal> multiples_of{};

  std::uint64_t min_length = 0, max_length = unbounded;
  std::vector<std::string> patterns{}, formats{};

  std::uint64_t min_items = 0, max_items = unbounded;
  std::vector<SchemaNodes> prefix_items{};
  std::optional<SchemaNodes> items{};  ///< of elements after the first; none: not given
  bool unique_items = false;

  std::vector<std::pair<std::string, SchemaNodes>> properties{};
  std::vector<std::string> required{};
  std::optional<SchemaNodes> additional{};  ///< of properties that are not listed; none: not given
  bool closed = false;                      ///< only listed properties are allowed
  std::vector<PatternScope> scopes{};
  std::optional<SchemaNodes> property_names{};  ///< of every property's name; none: not given
  std::uint64_t min_properties = 0, max_properties = unbounded;
  std::uint8_t types_named = 0;  ///< types that have a keyword here

  bool is_typed = false;  ///< has a `type`

  /// A schema without `type` but with keywords of objects means an object: other values, though valid, are not written.
  [[nodiscard]] std::uint8_t written_types() const {
    const auto named = static_cast<std::uint8_t>(types & types_named);
    return is_typed || named == 0 ? types : named;
  }
  /// Whether it constrains nothing.
  [[nodiscard]] bool is_open() const { return types == schema_any && types_named == 0 && !values && excluded.empty(); }
};

/// A JSON schema, resolved into what can be written as a grammar. All errors name the keyword and the place in the schema.
class SchemaDocument {
 public:
  using Json = nlohmann::ordered_json;

  /// `root` and `budget` must outlive the document. Throws Error if it is not a schema or nests too deeply; every call
  /// throws the exceptions of WorkBudget.
  SchemaDocument(const nlohmann::ordered_json& root, WorkBudget& budget);

  /// The alternatives that satisfy all of `nodes`: a value must satisfy one of them. None if no value can.
  std::vector<SchemaFacets> alternatives(const SchemaNodes& nodes);

  /// `nodes`, with each schema that is only a reference replaced by its target.
  SchemaNodes follow(const SchemaNodes& nodes) const;

  /// The list of a schema that is only an `anyOf` of schemas without references and combinations: a value satisfies
  /// one of them, and each can be written by itself. Otherwise null.
  [[nodiscard]] static const nlohmann::ordered_json* plain_choice(const SchemaNodes& nodes);

  /// The schemas of a property that `facets` does not list; none: it is forbidden.
  std::optional<SchemaNodes> unlisted(const SchemaFacets& facets, const std::string& name) const;
  /// Whether `pattern` matches a name. `place` is what error messages name.
  [[nodiscard]] bool matches(const Json& place, const std::string& pattern, const std::string& name) const;
  /// Whether `name` may be a property's by `property_names`.
  [[nodiscard]] bool admits_name(const Json& place, const std::vector<SchemaFacets>& property_names,
                                 const std::string& name) const;

  [[nodiscard]] WorkBudget& budget() const { return budget_; }

  /// Calls `body`; an Error that it throws names `place` and `what` afterwards.
  template <class Body>
  void naming(const Json& place, std::string_view what, Body&& body) const {
    try {
      body();
    } catch (const Interrupted&) {
      throw;
    } catch (const Postponed&) {
      throw;
    } catch (const Error& error) {
      const std::string_view message = error.what();
      if (message.starts_with("json_schema: ")) {
        throw;
      }
      fail(place, std::string(what) + ": " + std::string(message));
    }
  }

  /// "#/properties/name"
  [[nodiscard]] std::string path(const nlohmann::ordered_json& node) const;

  [[noreturn]] void fail(const nlohmann::ordered_json& node, std::string_view message) const;

 private:
  /// How a part of a schema is combined with the others.
  enum class Joint : std::uint8_t { all, any, one };
  /// A schema that is being resolved, after the parts it is made of: what its references and lists name, in their order.
  struct Open {
    const Json* schema = nullptr;
    std::vector<std::pair<Joint, const Json*>> parts{};
    std::size_t joined = 0;                            ///< parts so far
    std::vector<SchemaFacets> all{};                   ///< the ways to satisfy the schema and these parts
    std::vector<std::vector<SchemaFacets>> options{};  ///< those of the list's alternatives so far
    std::size_t num_options = 0;                       ///< in all of them
  };

  void add_paths(const Json& root);
  const Json& target(const Json& schema) const;
  [[nodiscard]] const Json* member(const Json& object, const std::string& name) const;
  std::vector<SchemaFacets> resolve(const Json& schema);
  void open(const Json& schema);
  void join_part(Open& open, const std::vector<SchemaFacets>& part);
  void check_apart(const Json& schema, std::vector<std::vector<SchemaFacets>>& options);
  std::vector<SchemaFacets> combine(const Json& schema, const std::vector<SchemaFacets>& a,
                                    const std::vector<SchemaFacets>& b);
  [[nodiscard]] bool merge(const SchemaFacets& a, const SchemaFacets& b, SchemaFacets& both) const;
  void merge_properties(const SchemaFacets& a, const SchemaFacets& b, SchemaFacets& both) const;
  bool make_disjoint(SchemaFacets& a, SchemaFacets& b, int depth);

  void spend(const Json& schema, std::size_t units);

  const Json& root_;
  WorkBudget& budget_;
  std::size_t work_ = 0;
  std::unordered_map<const Json*, std::string> paths_;
  SchemaIds ids_;
  mutable std::map<std::string, TextNfa> patterns_;                                   // of names, by their text
  std::unordered_map<const Json*, std::map<std::string_view, const Json*>> members_;  // of objects that have many
  std::deque<Open> open_;                                                             // each a part of the one before
  bool is_comparing_ = false;
};

/// The facets of the keywords of one schema, without its references and combinations. Throws Error through `document`.
SchemaFacets read_facets(const nlohmann::ordered_json& schema, const SchemaDocument& document);

/// Whether `value` is of a type of `facets` and within its bounds; nullopt where these do not decide it.
std::optional<bool> admits(const SchemaFacets& facets, const nlohmann::ordered_json& value);
/// The same for one of `facets.values`.
std::optional<bool> admits_beside_values(const SchemaFacets& facets, const nlohmann::ordered_json& value);

}  // namespace rocmforge
