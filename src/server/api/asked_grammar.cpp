#include "server/api/asked_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_document.h"
#include "grammar/json_schema.h"
#include "grammar/pattern_grammar.h"
#include "server/api/api_error.h"
#include "service/reading.h"

namespace rocmforge {
namespace {

using AnswerGrammars = std::vector<AnswerGrammar>;

/// The grammar that `make` returns. Its Error becomes an ApiError that names the field.
template <class Make>
AnswerGrammar asked_by(const std::string& field, Make&& make) {
  try {
    return {make(), field};
  } catch (const Error& error) {
    throw ApiError(400, in_field(field, error.what()), field);
  }
}

AnswerGrammar from_schema(const Json& schema, const std::string& field, Reading& reading) {
  if (!schema.is_object() && !schema.is_boolean()) {
    throw ApiError(400, fmt::format("{} must be an object", field), field);
  }
  WorkBudget budget(grammar_compile_units, "json_schema: compiling it", &reading.budget);
  return asked_by(field, [&] { return json_schema_grammar(schema, budget); });
}

void read_response_format(Fields& request, Reading& reading, AnswerGrammars& asked) {
  const Json* object = request.object("response_format");
  if (object == nullptr) {
    return;
  }
  Fields fields = request.inner(*object, "response_format.");
  const std::string type = fields.needed_choice("type", {"text", "json_object", "json_schema"});
  if (type == "json_object") {
    const Json* schema = fields.find("schema");
    asked.push_back(schema == nullptr ? AnswerGrammar{json_object_grammar(), "response_format"}
                                      : from_schema(*schema, "response_format.schema", reading));
  } else if (type == "json_schema") {
    // llama-server documents the schema beside the type as well.
    if (const Json* beside = fields.find("schema"); beside != nullptr && !fields.has("json_schema")) {
      asked.push_back(from_schema(*beside, "response_format.schema", reading));
      static_cast<void>(fields.boolean("strict"));
      fields.ignore({"name", "description"});
      fields.finish();
      return;
    }
    Fields schema = request.inner(fields.needed_object("json_schema"), "response_format.json_schema.");
    if (const auto name = schema.text("name")) {
      check_schema_name(schema, *name);
    }
    static_cast<void>(schema.boolean("strict"));  // it always is
    schema.ignore({"description"});
    const Json* value = schema.find("schema");
    if (value == nullptr) {
      schema.fail("schema", "is missing");
    }
    asked.push_back(from_schema(*value, "response_format.json_schema.schema", reading));
    schema.finish();
  }
  fields.finish();
}

void read_text_grammar(Fields& fields, std::string_view name, AnswerGrammars& asked) {
  if (const auto text = fields.text(name); text && !text->empty()) {
    asked.push_back({.field = fields.full_name(name), .gbnf = *text});
  }
}

/// A schema, or its JSON as a text.
void read_schema(Fields& fields, std::string_view name, Reading& reading, AnswerGrammars& asked) {
  const Json* schema = fields.find(name);
  if (schema == nullptr) {
    return;
  }
  if (!schema->is_string()) {
    asked.push_back(from_schema(*schema, fields.full_name(name), reading));
    return;
  }
  JsonDocument read = read_json(schema->get_ref<const std::string&>(), reading.cost());
  const Document document(std::move(read.value));
  if (!read.problem.empty()) {
    fields.fail(name, "is no JSON: " + read.problem);
  }
  asked.push_back(from_schema(document.root, fields.full_name(name), reading));
}

void read_pattern(Fields& fields, std::string_view name, Reading& reading, AnswerGrammars& asked) {
  if (const auto pattern = fields.text(name)) {
    asked.push_back(asked_by(fields.full_name(name), [&] { return pattern_grammar(*pattern, reading.budget); }));
  }
}

void read_choices(Fields& fields, std::string_view name, Reading& reading, AnswerGrammars& asked) {
  const Json* choices = fields.array(name);
  if (choices == nullptr) {
    return;
  }
  if (choices->empty()) {
    fields.fail(name, "names nothing to choose");
  }
  if (!std::ranges::all_of(*choices, [](const Json& choice) { return choice.is_string(); })) {
    fields.fail(name, "must be an array of strings");
  }
  asked.push_back(asked_by(fields.full_name(name), [&] {
    GrammarBuilder grammar(reading.budget);
    std::vector<GrammarNode> texts;
    for (const Json& choice : *choices) {
      texts.push_back(grammar.literal(choice.get_ref<const std::string&>()));
    }
    return grammar.finish(grammar.choice(texts));
  }));
}

/// vLLM's object. Of its other members only values without an effect are accepted.
void read_structured_outputs(Fields& request, Reading& reading, AnswerGrammars& asked) {
  const Json* object = request.object("structured_outputs");
  if (object == nullptr) {
    return;
  }
  Fields fields = request.inner(*object, "structured_outputs.");
  read_schema(fields, "json", reading, asked);
  read_pattern(fields, "regex", reading, asked);
  read_choices(fields, "choice", reading, asked);
  read_text_grammar(fields, "grammar", asked);
  if (fields.boolean("json_object").value_or(false)) {
    asked.push_back({json_object_grammar(), fields.full_name("json_object")});
  }
  const Json off = Json::array({false});
  fields.refuse_unless("structural_tag", Json::array(), "use tools");
  fields.refuse_unless("whitespace_pattern", Json::array(), "at most one blank, or a line's end, stands between pieces");
  fields.refuse_unless("disable_any_whitespace", off, "at most one blank, or a line's end, stands between pieces");
  fields.refuse_unless("disable_additional_properties", off, "the schema's additionalProperties says it");
  fields.ignore({"disable_fallback"});  // there is only one implementation
  fields.finish();
}

}  // namespace

void check_schema_name(const Fields& fields, const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  if (name.empty() || name.size() > 64 || !std::ranges::all_of(name, allowed)) {
    fields.fail("name", "must be 1 to 64 of A-Z a-z 0-9 _ -");
  }
}

std::optional<AnswerGrammar> read_answer_grammar(Fields& fields, Reading& reading, const std::optional<AskedFormat>& own) {
  AnswerGrammars asked;
  if (own) {
    asked.push_back(own->schema == nullptr ? AnswerGrammar{json_object_grammar(), own->field}
                                           : from_schema(*own->schema, own->field, reading));
  }
  read_text_grammar(fields, "grammar", asked);
  if (const Json* schema = fields.find("json_schema")) {
    asked.push_back(from_schema(*schema, fields.full_name("json_schema"), reading));
  }
  read_response_format(fields, reading, asked);
  read_structured_outputs(fields, reading, asked);
  read_schema(fields, "guided_json", reading, asked);
  read_pattern(fields, "guided_regex", reading, asked);
  read_choices(fields, "guided_choice", reading, asked);
  read_text_grammar(fields, "guided_grammar", asked);
  if (asked.size() > 1) {
    throw ApiError(400, fmt::format("{} and {} can't both rule the answer", asked[0].field, asked[1].field), asked[1].field);
  }
  return asked.empty() ? std::nullopt : std::optional(std::move(asked.front()));
}

}  // namespace rocmforge
