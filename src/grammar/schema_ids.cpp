#include "grammar/schema_ids.h"

#include <algorithm>

namespace rocmforge {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_name = 500;

/// "https:" of "https://example.org/a"; "" without a scheme.
std::string_view scheme_of(std::string_view name) {
  const std::size_t end = name.find_first_of(":/?#");
  return end == std::string_view::npos || end == 0 || name[end] != ':' ? std::string_view() : name.substr(0, end + 1);
}

std::string resolve_name(const std::string& base, std::string_view name) {
  if (!scheme_of(name).empty()) {
    return std::string(name);
  }
  while (name.starts_with("./")) {
    name.remove_prefix(2);
  }
  std::size_t authority = scheme_of(base).size();
  if (std::string_view(base).substr(authority).starts_with("//")) {
    authority = std::min(base.find('/', authority + 2), base.size());
  }
  if (name.starts_with('/')) {
    return base.substr(0, authority) + std::string(name);
  }
  const std::size_t slash = base.rfind('/');
  if (slash == std::string::npos || slash < authority) {  // nothing, or a host without a path
    return base.substr(0, authority) + (base.find("//") == std::string::npos ? "" : "/") + std::string(name);
  }
  return base.substr(0, slash + 1) + std::string(name);
}

/// The text of a keyword, where it is one of a usual length.
std::string_view text_of(const Json& schema, const char* keyword) {
  const auto found = schema.find(keyword);
  if (found == schema.end() || !found->is_string() || found->get_ref<const std::string&>().size() > longest_name) {
    return {};
  }
  return found->get_ref<const std::string&>();
}

}  // namespace

const std::string& SchemaIds::base(const Json* resource) const {
  static const std::string none;
  const auto found = bases_.find(resource);
  return found == bases_.end() ? none : found->second;
}

const Json* SchemaIds::named(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : found->second;
}

const Json* SchemaIds::add(const Json& schema, const Json* resource, WorkBudget& budget) {
  budget.spend(1 + schema.size() / 4);
  std::string_view id = text_of(schema, "$id");
  id = id.empty() ? text_of(schema, "id") : id;
  std::string_view anchor = text_of(schema, "$anchor");
  if (id.starts_with('#')) {  // before 2019-09, an anchor
    anchor = id.substr(1);
  } else if (const std::string_view name = id.substr(0, id.find('#')); !name.empty()) {
    std::string full = resolve_name(base(resource), name);
    budget.spend(full.size());
    if (full.size() <= longest_name) {
      resource = &schema;
      names_.try_emplace(full, &schema);
      bases_.emplace(&schema, std::move(full));
    }
  }
  if (!anchor.empty()) {
    names_.try_emplace(base(resource) + "#" + std::string(anchor), &schema);
  }
  if (schema.contains("$ref")) {
    resources_.emplace(&schema, resource);
  }
  return resource;
}

SchemaIds::Place SchemaIds::find(const Json& schema, std::string_view reference) const {
  const std::size_t mark = std::min(reference.find('#'), reference.size());
  const std::string_view name = reference.substr(0, mark);
  const std::string_view fragment = reference.substr(std::min(mark + 1, reference.size()));
  const auto known = resources_.find(&schema);
  const Json* from = known == resources_.end() ? nullptr : known->second;
  if (!name.empty() && name.size() <= longest_name) {
    from = named(resolve_name(base(from), name));
  }
  if (from == nullptr || fragment.empty() || fragment.starts_with('/')) {
    return {from, std::string(fragment)};
  }
  return {fragment.size() > longest_name ? nullptr : named(base(from) + "#" + std::string(fragment)), ""};
}

}  // namespace rocmforge
