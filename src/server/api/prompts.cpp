#include "server/api/prompts.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/api/api_error.h"

namespace rocmforge {
namespace {

std::int32_t read_id(Fields& fields, std::string_view name, const Json& value, const ServedModel& model) {
  const bool integer = value.is_number_integer();
  const std::int64_t id =
      integer && !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) ? value.get<std::int64_t>() : -1;
  if (id < 0 || id >= model.vocab) {
    fields.fail(name, integer ? fmt::format("names a token that is not one of the vocabulary's {}", model.vocab)
                              : "must be a string, token ids, or an array of these");
  }
  return static_cast<std::int32_t>(id);
}

/// Whether a value is one prompt: no array, or one of ids, or of ids and texts.
bool is_one_prompt(const Json& value) {
  const auto is_number = [](const Json& part) { return part.is_number(); };
  const auto is_part = [](const Json& part) { return part.is_number() || part.is_string(); };
  return !value.is_array() || value.empty() ||
         (std::ranges::any_of(value, is_number) && std::ranges::all_of(value, is_part));
}

}  // namespace

Tokenizer::EncodeOptions read_raw_rules(Fields& fields) {
  return {.add_special = fields.boolean("add_special_tokens").value_or(true),
          .parse_special = fields.boolean("parse_special").value_or(true)};
}

Ids read_prompt(Fields& fields, std::string_view name, const Json& value, const ServedModel& model, Reading& reading,
                Tokenizer::EncodeOptions rules) {
  if (value.is_string()) {
    return encode_text(reading, model.text(), value.get_ref<const std::string&>(), rules);
  }
  if (!value.is_array()) {
    fields.fail(name, "must be a string, token ids, or an array of these");
  }
  Ids ids;
  for (const Json& part : value) {
    if (part.is_string()) {
      const Ids more = encode_text(reading, model.text(), part.get_ref<const std::string&>(),
                                   {.add_special = rules.add_special && ids.empty(), .parse_special = rules.parse_special});
      ids.insert(ids.end(), more.begin(), more.end());
    } else {
      ids.push_back(read_id(fields, name, part, model));
    }
  }
  return ids;
}

std::vector<const Json*> prompt_values(Fields& fields, std::string_view name, bool objects) {
  const Json* value = fields.find(name);
  if (value == nullptr) {
    fields.fail(name, "is missing");
  }
  if (!value->is_string() && !value->is_array() && !(objects && value->is_object() && !value->empty())) {
    fields.fail(name, "must be a string, token ids, or an array of these");
  }
  if (value->empty()) {
    fields.fail(name, "is empty");
  }
  if (is_one_prompt(*value)) {
    return {value};
  }
  if (value->size() > most_prompts) {
    fields.fail(name, fmt::format("holds {} entries, at most {}", value->size(), most_prompts));
  }
  std::vector<const Json*> values;
  for (const Json& one : *value) {
    values.push_back(&one);
  }
  return values;
}

std::vector<Ids> read_prompts(Fields& fields, std::string_view name, const ServedModel& model, Reading& reading,
                              Tokenizer::EncodeOptions rules) {
  std::vector<Ids> prompts;
  for (const Json* one : prompt_values(fields, name, false)) {
    prompts.push_back(read_prompt(fields, name, *one, model, reading, rules));
  }
  return prompts;
}

}  // namespace rocmforge
