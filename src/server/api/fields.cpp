#include "server/api/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json_document.h"
#include "server/api/api_error.h"

namespace rocmforge {
namespace {

/// What a value is, for a message: never the whole of a long one.
std::string shown(const Json& value) {
  if (value.is_structured()) {
    return fmt::format("an {}", value.type_name());  // an array, an object
  }
  std::string text = json_text(value);
  constexpr std::size_t longest = 40;
  return text.size() <= longest ? text : fmt::format("a {} of {} characters", rounded(value).type_name(), text.size());
}

}  // namespace

Fields::Fields(const Json& object, std::string path)
    : object_(&object), path_(std::move(path)), unknown_(std::make_shared<UnknownFields>()) {
  if (!object.is_object()) {
    const std::string name = path_.empty() ? "the body" : path_.substr(0, path_.size() - 1);
    throw ApiError(400, fmt::format("{} is {}, must be an object", name, shown(object)), path_.empty() ? "" : name);
  }
  for (auto member = object.begin(); member != object.end(); ++member) {
    members_.emplace(member.key(), &member.value());
  }
}

Fields Fields::inner(const Json& object, std::string path) const {
  Fields fields(object, std::move(path));
  fields.unknown_ = unknown_;
  return fields;
}

Fields Fields::element(std::string_view name, const Json& array, std::size_t index) const {
  return inner(array[index], fmt::format("{}[{}].", full_name(name), index));
}

void Fields::fail(std::string_view name, std::string_view problem) const {
  throw ApiError(400, fmt::format("{} {}", full_name(name), problem), full_name(name));
}

const Json* Fields::find(std::string_view name) {
  known_.emplace(name);
  const auto found = members_.find(name);
  return found == members_.end() || found->second->is_null() ? nullptr : found->second;
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_boolean()) {
    fail(name, fmt::format("is {}, must be true or false", shown(*value)));
  }
  return value->get<bool>();
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t least, std::int64_t most) {
  const Json* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  // 2^63 and above come as unsigned, and "1.0" is an integer too: JSON has one kind of number.
  const bool whole = value->is_number_float() && std::trunc(value->get<double>()) == value->get<double>() &&
                     std::abs(value->get<double>()) < 0x1p53;
  if (!value->is_number_integer() && !whole) {
    fail(name, fmt::format("is {}, must be an integer", shown(*value)));
  }
  const bool fits = !value->is_number_unsigned() || value->get<std::uint64_t>() <= std::uint64_t{INT64_MAX};
  const std::int64_t number = !fits   ? 0
                              : whole ? static_cast<std::int64_t>(value->get<double>())
                                      : value->get<std::int64_t>();
  if (!fits || number < least || number > most) {
    fail(name, most == INT64_MAX ? fmt::format("is {}, must be at least {}", shown(*value), least)
                                 : fmt::format("is {}, must be {} to {}", shown(*value), least, most));
  }
  return number;
}

std::optional<double> Fields::number(std::string_view name, double least, double most) {
  const Json* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_number()) {
    fail(name, fmt::format("is {}, must be a number", shown(*value)));
  }
  const auto number = value->get<double>();
  if (!(number >= least && number <= most)) {
    fail(name, fmt::format("is {}, must be {} to {}", shown(*value), least, most));
  }
  return number;
}

std::optional<std::string> Fields::text(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!value->is_string()) {
    fail(name, fmt::format("is {}, must be a string", shown(*value)));
  }
  return value->get<std::string>();
}

std::optional<std::string> Fields::choice(std::string_view name, std::initializer_list<std::string_view> values) {
  std::optional<std::string> value = text(name);
  if (value && std::ranges::find(values, *value) == values.end()) {
    fail(name, fmt::format("is '{}', must be one of {}", value->substr(0, 40), fmt::join(values, ", ")));
  }
  return value;
}

const Json* Fields::array(std::string_view name) {
  const Json* value = find(name);
  if (value != nullptr && !value->is_array()) {
    fail(name, fmt::format("is {}, must be an array", shown(*value)));
  }
  return value;
}

const Json* Fields::object(std::string_view name) {
  const Json* value = find(name);
  if (value != nullptr && !value->is_object()) {
    fail(name, fmt::format("is {}, must be an object", shown(*value)));
  }
  return value;
}

std::string Fields::needed_text(std::string_view name) {
  auto value = text(name);
  if (!value) {
    fail(name, "is missing");
  }
  return *std::move(value);
}

std::string Fields::needed_choice(std::string_view name, std::initializer_list<std::string_view> values) {
  auto value = choice(name, values);
  if (!value) {
    fail(name, "is missing");
  }
  return *std::move(value);
}

const Json& Fields::needed_object(std::string_view name) {
  const Json* value = object(name);
  if (value == nullptr) {
    fail(name, "is missing");
  }
  return *value;
}

void Fields::ignore(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    known_.emplace(name);
  }
}

void Fields::refuse_unless(std::string_view name, const Json& neutral, std::string_view reason) {
  const Json* value = find(name);
  if (value == nullptr || std::find(neutral.begin(), neutral.end(), *value) != neutral.end()) {
    return;
  }
  std::string allowed;
  for (const Json& one : neutral) {
    allowed += fmt::format("{} or ", to_text(one));
  }
  fail(name, fmt::format("is {}, must be {}absent: {}", shown(*value), allowed, reason));
}

void Fields::ignore_unless(std::string_view name, const Json& neutral) {
  const auto found = members_.find(name);
  if (found != members_.end() && std::find(neutral.begin(), neutral.end(), *found->second) != neutral.end()) {
    known_.emplace(name);
  }
}

void Fields::note(std::string_view name) {
  ++unknown_->count;
  if (unknown_->names.size() < UnknownFields::most_names) {
    unknown_->names.push_back(full_name(name.substr(0, 64)));
  }
}

void Fields::finish() {
  for (auto member = object_->begin(); member != object_->end(); ++member) {
    if (!member->is_null() && !known_.contains(member.key())) {
      note(member.key());
    }
  }
}

}  // namespace rocmforge
