#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "grammar/schema_facets.h"

namespace rocmforge {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t deepest_schema = 100, deepest_reference = 200;
constexpr std::size_t many_members = 16;
constexpr std::size_t most_schema_parts = 100'000, most_alternatives = 200, most_work = 4'000'000;

std::optional<SchemaNodes> join_given(const std::optional<SchemaNodes>& a, const std::optional<SchemaNodes>& b) {
  return a && b ? join(*a, *b) : a ? a : b;
}

void add_missing(std::vector<std::string>& all, const std::vector<std::string>& more) {
  std::set<std::string> known(all.begin(), all.end());
  for (const std::string& one : more) {
    if (known.insert(one).second) {
      all.push_back(one);
    }
  }
}

/// The properties of a schema by their names.
class PropertyIndex {
 public:
  explicit PropertyIndex(const SchemaFacets& facets) {
    for (const auto& [name, nodes] : facets.properties) {
      nodes_.emplace(name, &nodes);
    }
  }
  [[nodiscard]] const SchemaNodes* find(std::string_view name) const {
    const auto found = nodes_.find(name);
    return found == nodes_.end() ? nullptr : found->second;
  }
  [[nodiscard]] bool has_all(const std::vector<std::string>& names) const {
    return std::ranges::all_of(names, [&](const std::string& name) { return nodes_.contains(name); });
  }

 private:
  std::map<std::string_view, const SchemaNodes*> nodes_;
};

/// The number of elements that are copied when two schemas are joined.
std::size_t size_of(const SchemaFacets& facets) {
  std::size_t size = facets.required.size() + facets.patterns.size() + facets.formats.size() +
                     (facets.values ? facets.values->size() : 0) + (facets.items ? facets.items->size() : 0) +
                     (facets.additional ? facets.additional->size() : 0) + facets.excluded.size() +
                     facets.multiples_of.size();
  for (const PatternScope& scope : facets.scopes) {
    size += 1 + scope.patterns.size();
  }
  for (const auto& [name, nodes] : facets.properties) {
    size += 1 + nodes.size();
  }
  for (const SchemaNodes& nodes : facets.prefix_items) {
    size += 1 + nodes.size();
  }
  return size;
}

void merge_items(const SchemaFacets& a, const SchemaFacets& b, SchemaFacets& both) {
  both.prefix_items.assign(std::max(a.prefix_items.size(), b.prefix_items.size()), {});
  for (std::size_t i = 0; i < both.prefix_items.size(); ++i) {
    for (const SchemaFacets* one : {&a, &b}) {
      const SchemaNodes nodes = i < one->prefix_items.size() ? one->prefix_items[i] : one->items.value_or(SchemaNodes{});
      both.prefix_items[i] = join(both.prefix_items[i], nodes);
    }
  }
  both.items = join_given(a.items, b.items);
  both.min_items = std::max(a.min_items, b.min_items);
  both.max_items = std::min(a.max_items, b.max_items);
  both.unique_items = a.unique_items || b.unique_items;
}

void merge_ranges(const SchemaFacets& b, SchemaFacets& both) {
  const auto tighter = [](const std::optional<DecimalBound>& one, const std::optional<DecimalBound>& other, int sign) {
    if (!one || !other) {
      return one ? one : other;
    }
    const int order = compare(one->value, other->value) * sign;
    return order > 0 || (order == 0 && one->exclusive) ? one : other;
  };
  both.range.lower = tighter(both.range.lower, b.range.lower, 1);
  both.range.upper = tighter(both.range.upper, b.range.upper, -1);
  both.multiples_of.insert(both.multiples_of.end(), b.multiples_of.begin(), b.multiples_of.end());
}

bool ranges_are_apart(const DecimalRange& low, const DecimalRange& high) {
  if (!low.upper || !high.lower) {
    return false;
  }
  const int order = compare(low.upper->value, high.lower->value);
  return order < 0 || (order == 0 && (low.upper->exclusive || high.lower->exclusive));
}

bool values_are_apart(const SchemaFacets& a, const SchemaFacets& b) {
  return a.values && std::all_of(a.values->begin(), a.values->end(), [&](const Json& value) {
           return admits(b, value) == std::optional(false) || admits(a, value) == std::optional(false);
         });
}

std::string unescape(std::string_view token) {
  std::string text;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const auto hex = [](char c) {
      return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    };
    if (token[i] == '%' && i + 2 < token.size() && hex(token[i + 1]) >= 0 && hex(token[i + 2]) >= 0) {
      text += static_cast<char>(hex(token[i + 1]) * 16 + hex(token[i + 2]));
      i += 2;
    } else if (token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1')) {
      text += token[++i] == '0' ? '~' : '/';
    } else {
      text += token[i];
    }
  }
  return text;
}

/// What the members of an object of the document are.
enum class Holds : std::uint8_t { keywords, names, values };

/// The same for the member `name` of such an object.
Holds inside(Holds outer, std::string_view name) {
  constexpr std::array<std::string_view, 5> maps = {"properties", "patternProperties", "$defs", "definitions",
                                                    "dependentSchemas"};
  constexpr std::array<std::string_view, 5> values = {"enum", "const", "default", "examples", "example"};
  if (outer == Holds::names) {
    return Holds::keywords;
  }
  if (outer == Holds::values || std::ranges::find(values, name) != values.end()) {
    return Holds::values;
  }
  return std::ranges::find(maps, name) != maps.end() ? Holds::names : Holds::keywords;
}

}  // namespace

SchemaDocument::SchemaDocument(const Json& root, WorkBudget& budget) : root_(root), budget_(budget) {
  add_paths(root);
  if (!root.is_object() && !root.is_boolean()) {
    fail(root, "a schema is an object");
  }
}

void SchemaDocument::add_paths(const Json& root) {
  constexpr std::size_t longest_path = 200;
  struct Level {
    const Json* node;
    Json::const_iterator next;
    const Json* resource;  ///< SchemaIds::add
    Holds holds;
  };
  std::vector<Level> levels;
  const auto enter = [&](const Json& node, std::string path, const Json* resource, Holds holds) {
    if (levels.size() > deepest_schema) {
      throw Error(fmt::format("json_schema: nested deeper than {}", deepest_schema));
    }
    if (paths_.size() == most_schema_parts) {
      throw Error(fmt::format("json_schema: more than {} parts", most_schema_parts));
    }
    budget_.spend(10);
    paths_.emplace(&node, std::move(path));
    if (node.is_object() && holds == Holds::keywords) {
      resource = ids_.add(node, resource, budget_);
    }
    if (node.is_structured()) {
      levels.push_back({&node, node.begin(), resource, holds});
    }
  };
  enter(root, "#", &root, Holds::keywords);
  while (!levels.empty()) {
    const Json& outer = *levels.back().node;
    const Json::const_iterator place = levels.back().next;
    if (place == outer.end()) {
      levels.pop_back();
      continue;
    }
    ++levels.back().next;
    const Json* resource = levels.back().resource;
    const Holds holds = inside(levels.back().holds, outer.is_object() ? place.key() : "");
    std::string path = paths_.at(&outer);
    if (outer.is_object() && outer.size() > many_members) {
      members_[&outer].emplace(place.key(), &*place);
    }
    if (path.size() < longest_path) {
      path += "/";
      path += outer.is_object() ? place.key().substr(0, longest_path) : std::to_string(place - outer.begin());
      path.resize(std::min(path.size(), longest_path));
    }
    enter(*place, std::move(path), resource, holds);
  }
}

std::string SchemaDocument::path(const Json& node) const {
  const auto found = paths_.find(&node);
  return found == paths_.end() ? "#" : found->second;
}

void SchemaDocument::fail(const Json& node, std::string_view message) const {
  std::string line = fmt::format("json_schema: {}: {}", path(node), message);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  throw Error(line);
}

const Json* SchemaDocument::member(const Json& object, const std::string& name) const {
  if (const auto index = members_.find(&object); index != members_.end()) {
    const auto found = index->second.find(name);
    return found == index->second.end() ? nullptr : found->second;
  }
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

const Json* SchemaDocument::plain_choice(const SchemaNodes& nodes) {
  if (nodes.size() != 1 || !nodes[0]->is_object() || nodes[0]->size() != 1 || nodes[0]->begin().key() != "anyOf") {
    return nullptr;
  }
  const Json& list = nodes[0]->front();
  const auto is_plain = [](const Json& one) {
    return one.is_object() && std::none_of(combining_keywords.begin(), combining_keywords.end(),
                                           [&](std::string_view keyword) { return one.contains(keyword); });
  };
  return list.is_array() && !list.empty() && std::all_of(list.begin(), list.end(), is_plain) ? &list : nullptr;
}

/// The target of the reference in `schema`: a place in this document.
const Json& SchemaDocument::target(const Json& schema) const {
  const Json& reference = schema.at("$ref");
  budget_.spend(reference.is_string() ? reference.get_ref<const std::string&>().size() / 4 : 0);
  const std::string text = reference.is_string() ? reference.get<std::string>() : "";
  const auto [from, pointer] = ids_.find(schema, text);
  if (text.empty() || from == nullptr) {
    fail(schema,
         fmt::format("'$ref' is supported within the schema only; no schema in it is called '{}'", text.substr(0, 80)));
  }
  const Json* node = from;
  for (std::size_t i = 0; i < pointer.size();) {
    const std::size_t end = std::min(pointer.find('/', i + 1), pointer.size());
    const std::string token = unescape(std::string_view(pointer).substr(i + 1, end - i - 1));
    const Json* next = nullptr;
    if (node->is_object()) {
      next = member(*node, token);
    } else if (node->is_array() && !token.empty() && token.size() < 6 &&
               token.find_first_not_of("0123456789") == std::string::npos && std::stoul(token) < node->size()) {
      next = &node->at(std::stoul(token));
    }
    if (next == nullptr) {
      fail(schema, fmt::format("'$ref': there is no '{}'", text.substr(0, 80)));
    }
    node = next;
    i = end;
  }
  if (!node->is_object() && !node->is_boolean()) {
    fail(schema, fmt::format("'$ref': '{}' is no schema", text.substr(0, 80)));
  }
  return *node;
}

SchemaNodes SchemaDocument::follow(const SchemaNodes& nodes) const {
  SchemaNodes all;
  for (const Json* node : nodes) {
    for (std::size_t steps = 0; node->is_object(); ++steps) {
      budget_.spend(1 + node->size() / 4);
      if (!node->contains("$ref")) {
        break;
      }
      const bool alone = std::all_of(node->items().begin(), node->items().end(), [](const auto& item) {
        constexpr std::array<std::string_view, 9> harmless = {"$ref",    "$defs",   "definitions", "title",  "description",
                                                              "default", "$schema", "$id",         "$anchor"};
        return std::ranges::find(harmless, item.key()) != harmless.end();
      });
      if (!alone) {
        break;
      }
      if (steps > deepest_schema) {
        fail(*node, "'$ref' names itself");
      }
      node = &target(*node);
    }
    all = join(std::move(all), {node});
  }
  return all;
}

std::vector<SchemaFacets> SchemaDocument::alternatives(const SchemaNodes& nodes) {
  std::vector<SchemaFacets> all(1);
  for (const Json* node : nodes) {
    all = combine(*node, all, resolve(*node));
  }
  return all;
}

/// Limits the work: schemas are resolved again at each reference, which could otherwise take very long.
void SchemaDocument::spend(const Json& schema, std::size_t units) {
  budget_.spend(units);
  work_ += units;
  if (work_ > most_work) {
    fail(schema, fmt::format("too many combinations of schemas: joining them takes more than {} units of work", most_work));
  }
}

/// Resolves the parts first, one after another, with the stack `open_`, so that nested schemas need no recursion.
std::vector<SchemaFacets> SchemaDocument::resolve(const Json& schema) {
  const std::size_t outermost = open_.size();
  std::vector<SchemaFacets> last;
  const auto begin = [&](const Json& one) {
    if (one.is_boolean()) {
      last.assign(one.get<bool>() ? 1 : 0, {});
      return false;
    }
    open(one);
    return true;
  };
  bool is_open = begin(schema);
  while (open_.size() > outermost) {
    Open& top = open_.back();
    if (!is_open) {
      join_part(top, last);
    }
    is_open = false;
    if (top.joined < top.parts.size()) {
      is_open = begin(*top.parts[top.joined].second);
      continue;
    }
    last = std::move(top.all);
    open_.pop_back();
  }
  return last;
}

void SchemaDocument::open(const Json& schema) {
  if (!schema.is_object()) {
    fail(schema, "a schema is an object, true or false");
  }
  if (std::ranges::any_of(open_, [&](const Open& one) { return one.schema == &schema; })) {
    fail(schema, "it refers to itself without a value between");
  }
  if (open_.size() == deepest_reference) {
    fail(schema, fmt::format("more than {} schemas lie in one another without a value between", deepest_reference));
  }
  spend(schema, 10 + schema.size());
  Open one{.schema = &schema};
  one.all.push_back(read_facets(schema, *this));
  if (schema.contains("$ref")) {
    one.parts.emplace_back(Joint::all, &target(schema));
  }
  for (const auto& [keyword, joint] :
       {std::pair("allOf", Joint::all), std::pair("anyOf", Joint::any), std::pair("oneOf", Joint::one)}) {
    if (!schema.contains(keyword)) {
      continue;
    }
    const Json& list = schema.at(keyword);
    if (!list.is_array() || list.empty()) {
      fail(schema, fmt::format("'{}' must be a list of at least one schema", keyword));
    }
    for (const Json& part : list) {
      one.parts.emplace_back(joint, &part);
    }
  }
  open_.push_back(std::move(one));
}

/// Joins the alternatives of the next part to those of `open`.
void SchemaDocument::join_part(Open& open, const std::vector<SchemaFacets>& part) {
  const Json& schema = *open.schema;
  const Joint joint = open.parts[open.joined++].first;
  if (joint == Joint::all) {
    open.all = combine(schema, open.all, part);
    return;
  }
  open.options.push_back(combine(schema, open.all, part));
  open.num_options += open.options.back().size();
  if (open.num_options > most_alternatives) {
    fail(schema, fmt::format("it resolves to more than {} alternatives", most_alternatives));
  }
  if (open.joined < open.parts.size() && open.parts[open.joined].first == joint) {
    return;
  }
  // Alternatives inside a schema that is being compared need no check: they are checked where their own rule is written.
  if (joint == Joint::one && !is_comparing_) {
    is_comparing_ = true;
    check_apart(schema, open.options);
    is_comparing_ = false;
  }
  open.all.clear();
  for (std::vector<SchemaFacets>& option : open.options) {
    std::move(option.begin(), option.end(), std::back_inserter(open.all));
  }
  open.options.clear();
  open.num_options = 0;
}

/// Checks that no value satisfies two options.
void SchemaDocument::check_apart(const Json& schema, std::vector<std::vector<SchemaFacets>>& options) {
  for (std::size_t i = 0; i < options.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      for (SchemaFacets& a : options[j]) {
        for (SchemaFacets& b : options[i]) {
          const std::size_t values = (a.values ? a.values->size() : 0) * (b.values ? b.values->size() : 0);
          spend(schema, 10 + (size_of(a) + size_of(b)) / 2 + values / 4);
          if (!make_disjoint(a, b, 0)) {
            fail(schema, fmt::format("'oneOf': alternatives {} and {} may both match one value; use 'anyOf', or a required "
                                     "property with another constant in each",
                                     j, i));
          }
        }
      }
    }
  }
}

std::vector<SchemaFacets> SchemaDocument::combine(const Json& schema, const std::vector<SchemaFacets>& a,
                                                  const std::vector<SchemaFacets>& b) {
  if (a.size() * b.size() > most_alternatives) {
    fail(schema, fmt::format("it resolves to more than {} alternatives", most_alternatives));
  }
  std::vector<SchemaFacets> all;
  for (const SchemaFacets& one : a) {
    for (const SchemaFacets& other : b) {
      const std::size_t values = (one.values ? one.values->size() : 1) * (other.values ? other.values->size() : 1);
      spend(schema, 10 + (size_of(one) + size_of(other)) / 2 + values / 4);
      SchemaFacets both;
      if (merge(one, other, both)) {
        all.push_back(std::move(both));
      }
    }
  }
  return all;
}

/// The properties that both allow.
void SchemaDocument::merge_properties(const SchemaFacets& a, const SchemaFacets& b, SchemaFacets& both) const {
  const PropertyIndex in_a(a), in_b(b);
  both.properties.clear();
  const auto add_unlisted = [&](const std::string& name, const SchemaNodes& nodes, const SchemaFacets& other) {
    if (const auto others = unlisted(other, name)) {
      both.properties.emplace_back(name, join(nodes, *others));
    }
  };
  for (const auto& [name, nodes] : a.properties) {
    if (const SchemaNodes* others = in_b.find(name)) {
      both.properties.emplace_back(name, join(nodes, *others));
    } else {
      add_unlisted(name, nodes, b);
    }
  }
  for (const auto& [name, nodes] : b.properties) {
    if (in_a.find(name) == nullptr) {
      add_unlisted(name, nodes, a);
    }
  }
  add_missing(both.required, b.required);
  both.closed = a.closed || b.closed;
  both.additional = join_given(a.additional, b.additional);
  both.scopes.insert(both.scopes.end(), b.scopes.begin(), b.scopes.end());
  both.property_names = join_given(a.property_names, b.property_names);
  both.min_properties = std::max(a.min_properties, b.min_properties);
  both.max_properties = std::min(a.max_properties, b.max_properties);
}

/// False where no value satisfies both.
bool SchemaDocument::merge(const SchemaFacets& a, const SchemaFacets& b, SchemaFacets& both) const {
  both = a;
  both.types &= b.types;
  both.types_named |= b.types_named;
  both.is_typed = a.is_typed || b.is_typed;
  if (b.values) {
    if (both.values) {
      std::erase_if(*both.values, [&](const Json& value) {
        return std::find(b.values->begin(), b.values->end(), value) == b.values->end();
      });
    } else {
      both.values = b.values;
    }
  }
  both.excluded.insert(both.excluded.end(), b.excluded.begin(), b.excluded.end());
  merge_ranges(b, both);
  both.min_length = std::max(a.min_length, b.min_length);
  both.max_length = std::min(a.max_length, b.max_length);
  add_missing(both.patterns, b.patterns);
  add_missing(both.formats, b.formats);
  merge_items(a, b, both);
  merge_properties(a, b, both);
  return both.types != 0 && (!both.values || !both.values->empty());
}

/// Whether no value that is written for one satisfies the other. If a property decides this that only one of them requires,
/// both require it afterwards. This leaves out valid values, but adds no invalid ones. Nothing is changed at `depth` above
/// 0.
bool SchemaDocument::make_disjoint(SchemaFacets& a, SchemaFacets& b, int depth) {
  const int common = (a.written_types() & b.types) | (b.written_types() & a.types);
  if (common == 0 || values_are_apart(a, b) || values_are_apart(b, a)) {
    return true;
  }
  if ((common & (schema_null | schema_boolean | schema_array)) != 0) {
    return false;
  }
  if ((common & (schema_number | schema_integer)) != 0 && !ranges_are_apart(a.range, b.range) &&
      !ranges_are_apart(b.range, a.range)) {
    return false;
  }
  if ((common & schema_string) != 0 && a.max_length >= b.min_length && b.max_length >= a.min_length) {
    return false;
  }
  if ((common & schema_object) == 0) {
    return true;
  }
  const PropertyIndex in_a(a), in_b(b);
  if ((a.closed && !in_a.has_all(b.required)) || (b.closed && !in_b.has_all(a.required))) {
    return true;
  }
  const std::set<std::string_view> of_a(a.required.begin(), a.required.end()), of_b(b.required.begin(), b.required.end());
  for (const auto& [name, nodes] : a.properties) {
    const SchemaNodes* others = in_b.find(name);
    const bool required = of_a.contains(name) && of_b.contains(name);
    if (others == nullptr || depth > 2 || (depth > 0 && !required)) {
      continue;
    }
    std::vector<SchemaFacets> mine = alternatives(nodes), theirs = alternatives(*others);
    const bool apart = std::all_of(mine.begin(), mine.end(), [&](SchemaFacets& one) {
      return std::all_of(theirs.begin(), theirs.end(),
                         [&](SchemaFacets& other) { return make_disjoint(one, other, depth + 1); });
    });
    if (apart) {
      add_missing(a.required, {name});
      add_missing(b.required, {name});
      return true;
    }
  }
  return false;
}

}  // namespace rocmforge
