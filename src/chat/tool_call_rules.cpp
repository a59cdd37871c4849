#include "chat/tool_call_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/json_document.h"
#include "base/utf8.h"
#include "chat/message_json.h"
#include "chat/tool_call_reader.h"
#include "chat/tool_grammar.h"
#include "grammar/json_schema.h"

namespace rocmforge {
namespace {

using nlohmann::ordered_json;
using Form = ToolCallFormat::Form;

std::vector<CodeRange> characters_of(std::string_view text) {
  std::vector<CodeRange> characters;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_unit(text, i).length;
    const char32_t code_point = utf8_code_point(text.substr(i, length));
    characters.push_back({code_point, code_point});
    i += length;
  }
  return characters;
}

/// A name in Python: it goes on with digits and `others` as well.
GrammarNode identifier(GrammarBuilder& grammar, std::vector<CodeRange> others) {
  const std::vector<CodeRange> first = {{U'a', U'z'}, {U'A', U'Z'}, {U'_', U'_'}};
  others.insert(others.end(), first.begin(), first.end());
  others.push_back({U'0', U'9'});
  return grammar.sequence(
      {grammar.characters(normalize(first)), grammar.any_number(grammar.characters(normalize(std::move(others))))});
}

/// Makes the grammar for calls of one tool.
class CallRules {
 public:
  CallRules(ToolCallStyle style, const ordered_json& tool, JsonGrammar& json, WorkBudget& budget)
      : format_(tool_call_format(style)),
        form_(style == ToolCallStyle::mistral ? Form::object : format_.form),
        name_(function_of(tool).at("name").get<std::string>()),
        schema_(parameters_of(tool)),
        json_(json),
        grammar_(json.grammar()),
        budget_(budget) {}

  GrammarNode call() {
    switch (form_) {
      case Form::object:
      case Form::keyed:
        return json_.after_blank(object_call());
      case Form::tagged:
        return tagged_call();
      case Form::gemma:
        return gemma_call();
      case Form::python:
        return python_call();
      case Form::named:
        break;
    }
    return named_call();
  }

 private:
  struct Argument {
    std::string name;
    ordered_json schema;
    bool is_required = false;
  };

  GrammarNode literal(std::string_view text) { return grammar_.literal(text); }
  GrammarNode in_json(std::string_view text) { return grammar_.literal(ordered_json(text).dump()); }

  /// A value of JSON, without a blank in front.
  GrammarNode value(const ordered_json& schema) {
    WorkBudget compiling(grammar_compile_units, "json_schema: compiling it", &budget_);
    return json_schema_value(schema, json_, compiling);
  }
  GrammarNode value_after_blank(const ordered_json& schema) { return json_.after_blank(value(schema)); }

  /// A call as a JSON object.
  GrammarNode object_call() {
    if (form_ == Form::keyed) {
      return json_.object(json_.member(in_json(name_), value(schema_)));
    }
    const ObjectCallKeys& keys = format_.keys;
    const GrammarNode name = json_.member(in_json(keys.name), in_json(name_));
    const GrammarNode arguments = json_.comma(json_.member(in_json(keys.arguments), value(schema_)));
    if (keys.id.empty()) {
      return json_.object(grammar_.sequence({name, arguments}));
    }
    const GrammarNode id = json_.member(in_json(keys.id), json_.quoted(number()));
    return json_.object(
        grammar_.choice({grammar_.sequence({id, json_.comma(name), arguments}), grammar_.sequence({name, arguments})}));
  }

  /// A number of up to three digits.
  GrammarNode number() { return grammar_.repeat(grammar_.characters(normalize({{U'0', U'9'}})), 1, 3); }

  GrammarNode named_call() {
    const NamedCallMarks& marks = format_.named;
    std::vector<GrammarNode> parts = {literal(fmt::format("{}{}{}", marks.begin, marks.name_prefix, name_))};
    if (!marks.name_prefix.empty()) {
      parts.insert(parts.end(), {literal(":"), number()});
    }
    if (!marks.id.empty()) {
      const GrammarNode letter = grammar_.characters(normalize({{U'a', U'z'}, {U'A', U'Z'}, {U'0', U'9'}}));
      parts.push_back(grammar_.optional(grammar_.sequence({literal(marks.id), grammar_.repeat(letter, 9, 9)})));
    }
    parts.insert(parts.end(), {literal(marks.arguments), value_after_blank(schema_), literal(marks.end)});
    return grammar_.sequence(parts);
  }

  /// The arguments in the schema's order.
  [[nodiscard]] std::vector<Argument> arguments() const {
    std::vector<Argument> list;
    const auto properties = schema_.find("properties");
    const auto required = schema_.find("required");
    if (properties == schema_.end() || !properties->is_object()) {
      return list;
    }
    for (const auto& [name, value] : properties->items()) {
      ordered_json schema = value;
      for (const char* key : {"$defs", "definitions"}) {  // references may point into these
        if (schema.is_object() && schema_.contains(key)) {
          schema[key] = schema_[key];
        }
      }
      const bool is_required = required != schema_.end() && required->is_array() &&
                               std::ranges::find(*required, ordered_json(name)) != required->end();
      list.push_back({name, std::move(schema), is_required});
    }
    return list;
  }
  /// Whether the schema is an object without known members.
  [[nodiscard]] bool takes_any_argument() const {
    return !schema_.contains("properties") &&
           schema_.value("additionalProperties", ordered_json(true)) != ordered_json(false);
  }

  GrammarNode tagged_call() {
    const TaggedCallMarks& tags = format_.tagged;
    std::vector<GrammarNode> parts = {literal(fmt::format("{}{}{}\n", tags.begin, name_, tags.name_end))};
    const GrammarNode end = literal(fmt::format("{}\n", tags.parameter_end));
    for (const Argument& argument : arguments()) {
      const bool is_text = is_open_text(argument) || text_choices(argument) != nullptr;
      const GrammarNode begin = literal(fmt::format("{}{}{}", tags.parameter, argument.name, before_value(is_text)));
      const GrammarNode whole = grammar_.sequence({begin, tagged_value(argument), end});
      parts.push_back(argument.is_required ? whole : grammar_.optional(whole));
    }
    if (takes_any_argument()) {
      const GrammarNode name = grammar_.repeat(
          grammar_.characters(complement(normalize({{U'<', U'<'}, {U'>', U'>'}, {U'"', U'"'}, {U'\n', U'\n'}}))), 1,
          GrammarBuilder::unbounded);
      parts.push_back(grammar_.any_number(
          grammar_.sequence({literal(tags.parameter), name, literal(before_value(true)), any_text(), end})));
    }
    parts.push_back(literal(tags.end));
    return grammar_.sequence(parts);
  }

  [[nodiscard]] std::string before_value(bool is_text) const {
    const TaggedCallMarks& tags = format_.tagged;
    const bool has_own_end = is_text && !tags.string_name_end.empty();
    return fmt::format("{}{}{}", has_own_end ? tags.string_name_end : tags.parameter_name_end,
                       tags.value.empty() ? "" : "\n", tags.value);
  }

  /// The enum of an argument, if all its values are texts; else null.
  static const ordered_json* text_choices(const Argument& argument) {
    const auto choices = argument.schema.is_object() ? argument.schema.find("enum") : argument.schema.end();
    const bool are_texts = argument.schema.is_object() && choices != argument.schema.end() && choices->is_array() &&
                           !choices->empty() &&
                           std::ranges::all_of(*choices, [](const ordered_json& each) { return each.is_string(); });
    return are_texts ? &*choices : nullptr;
  }

  /// Whether the argument is written as text without quotes.
  static bool is_open_text(const Argument& argument) {
    const std::vector<std::string> types = schema_types(argument.schema);
    return (types.empty() && (!argument.schema.is_object() || !argument.schema.contains("$ref"))) ||
           std::ranges::find(types, "string") != types.end();
  }

  GrammarNode one_of(const ordered_json& texts) {
    std::vector<GrammarNode> choices;
    for (const ordered_json& each : texts) {
      choices.push_back(literal(each.get_ref<const std::string&>()));
    }
    return grammar_.choice(choices);
  }

  GrammarNode tagged_value(const Argument& argument) {
    if (const ordered_json* choices = text_choices(argument); choices != nullptr) {
      return one_of(*choices);
    }
    return is_open_text(argument) ? any_text() : value_after_blank(argument.schema);
  }

  /// Any text without the tag that ends a value.
  GrammarNode any_text() {
    if (text_) {
      return *text_;
    }
    const std::vector<CodeRange> end = characters_of(format_.tagged.parameter_end);
    // behind[i] matches after the first i characters of the tag.
    std::vector<GrammarRule> behind(1);
    for (std::size_t i = 1; i < end.size(); ++i) {
      behind.push_back(grammar_.declare("text"));
    }
    const GrammarNode first = grammar_.characters({&end[0], 1});
    const auto other_than = [&](CodeRange also) { return grammar_.characters(complement(normalize({end[0], also}))); };
    const GrammarNode restart = grammar_.sequence({first, grammar_.reference(behind.at(1))});
    for (std::size_t i = 1; i < end.size(); ++i) {
      std::vector<GrammarNode> parts = {other_than(end[i]), restart};
      if (i + 1 < end.size()) {
        parts.push_back(grammar_.sequence({grammar_.characters({&end[i], 1}), grammar_.reference(behind[i + 1])}));
      }
      grammar_.define(behind[i], grammar_.choice(parts));
    }
    text_ = grammar_.add_rule("text", grammar_.any_number(grammar_.choice({other_than(end[0]), restart})));
    return *text_;
  }

  /// The arguments in order, `pair(i)`, with separators.
  template <class Pair>
  GrammarNode listed(const std::vector<Argument>& list, std::string_view separator, const Pair& pair) {
    // What may follow if no argument came before, and if one did.
    GrammarNode first = literal(""), rest = first;
    const GrammarNode between = literal(separator);
    for (std::size_t i = list.size(); i-- > 0;) {
      const GrammarNode own = pair(i);
      std::vector<GrammarNode> begun = {grammar_.sequence({own, rest})};
      std::vector<GrammarNode> continued = {grammar_.sequence({between, own, rest})};
      if (!list[i].is_required) {
        begun.push_back(first);
        continued.push_back(rest);
      }
      first = grammar_.add_rule("first", grammar_.choice(begun));
      rest = grammar_.add_rule("rest", grammar_.choice(continued));
    }
    return first;
  }

  /// Any number of `one` with `separator` between them.
  GrammarNode separated(GrammarNode one, std::string_view separator) {
    return grammar_.optional(grammar_.sequence({one, grammar_.any_number(grammar_.sequence({literal(separator), one}))}));
  }

  GrammarNode python_call() {
    const std::vector<Argument> list = arguments();
    const GrammarNode head = literal(name_ + "("), end = literal(")");
    if (takes_any_argument()) {
      const GrammarNode pair =
          grammar_.add_rule("pair", grammar_.sequence({identifier(grammar_, {}), literal("="), value_after_blank(true)}));
      return grammar_.sequence({head, separated(pair, ", "), end});
    }
    const GrammarNode all = listed(list, ", ", [&](std::size_t i) {
      const bool is_flag = list[i].schema.value("type", ordered_json()) == "boolean";
      const GrammarNode value =
          is_flag ? grammar_.choice({literal("True"), literal("False")}) : value_after_blank(list[i].schema);
      return grammar_.sequence({literal(list[i].name + "="), value});
    });
    return grammar_.sequence({head, all, end});
  }

  GrammarNode gemma_call() {
    const std::vector<Argument> list = arguments();
    const GrammarNode head = literal(fmt::format("{}{}{{", format_.named.begin, name_)), end = literal("}");
    if (takes_any_argument()) {
      return grammar_.sequence({head, gemma().pairs, end});
    }
    const GrammarNode all = listed(list, ",", [&](std::size_t i) {
      return grammar_.sequence({literal(list[i].name + ":"), gemma_value(list[i])});
    });
    return grammar_.sequence({head, all, end});
  }

  GrammarNode gemma_list(GrammarNode item) {
    return grammar_.add_rule("list", grammar_.sequence({literal("["), separated(item, ","), literal("]")}));
  }

  /// Texts, numbers and lists of these must match the schema. Other values are not written as JSON, so only their form is
  /// checked.
  GrammarNode gemma_value(const Argument& argument) {
    const ordered_json& schema = referred(argument.schema);
    if (const auto scalar = gemma_scalar(schema)) {
      return *scalar;
    }
    const std::vector<std::string> types = schema_types(schema);
    const bool is_list = types.size() == 1 && types[0] == "array";
    const ordered_json own_items = is_list ? schema.value("items", ordered_json()) : ordered_json();
    const ordered_json& items = referred(own_items);
    if (const auto scalar = items.is_object() ? gemma_scalar(items) : std::nullopt) {
      return gemma_list(grammar_.add_rule("item", *scalar));
    }
    return is_list ? gemma().list : types.size() == 1 && types[0] == "object" ? gemma().object : gemma().any;
  }

  /// The schema in this tool to which `schema` refers, or `schema` itself.
  [[nodiscard]] const ordered_json& referred(const ordered_json& schema) const {
    const ordered_json* found = &schema;
    constexpr int most = 8;
    for (int i = 0; i < most && found->is_object() && found->contains("$ref"); ++i) {
      const ordered_json& place = (*found)["$ref"];
      const std::string text = place.is_string() ? place.get<std::string>() : "";
      if (!text.starts_with("#/") || text.find('~') != std::string::npos ||
          !schema_.contains(ordered_json::json_pointer(text.substr(1)))) {
        break;
      }
      found = &schema_[ordered_json::json_pointer(text.substr(1))];
    }
    return *found;
  }

  GrammarNode in_marks(GrammarNode text) {
    const GrammarNode mark = literal(format_.tagged.parameter_end);
    return grammar_.sequence({mark, text, mark});
  }

  /// A text of an enum, a number, true, false or null, or any text; none when the schema may allow other values.
  std::optional<GrammarNode> gemma_scalar(const ordered_json& schema) {
    const std::vector<std::string> types = schema_types(schema);
    const auto choices = schema.is_object() ? schema.find("enum") : schema.end();
    if (schema.is_object() && choices != schema.end() && choices->is_array() && !choices->empty() &&
        std::ranges::all_of(*choices, [](const ordered_json& each) { return each.is_string(); })) {
      return in_marks(one_of(*choices));
    }
    const auto is_plain = [](const std::string& type) {
      return type == "integer" || type == "number" || type == "boolean" || type == "null";
    };
    if (!types.empty() && std::ranges::all_of(types, is_plain)) {
      return value_after_blank(schema);
    }
    return types.size() == 1 && types[0] == "string" ? std::optional(in_marks(any_text())) : std::nullopt;
  }

  /// Values of any form.
  struct GemmaValues {
    GrammarNode any, list, object, pairs;
  };
  const GemmaValues& gemma() {
    if (!gemma_) {
      const GrammarRule any = grammar_.declare("any");
      GemmaValues values{.any = grammar_.reference(any), .list{}, .object{}, .pairs{}};
      const GrammarNode pair =
          grammar_.add_rule("pair", grammar_.sequence({identifier(grammar_, {{U'-', U'-'}}), literal(":"), values.any}));
      values.list = gemma_list(values.any);
      values.pairs = grammar_.add_rule("pairs", separated(pair, ","));
      values.object = grammar_.add_rule("object", grammar_.sequence({literal("{"), values.pairs, literal("}")}));
      const GrammarNode plain = value_after_blank(ordered_json{{"type", {"number", "boolean", "null"}}});
      grammar_.define(any, grammar_.choice({in_marks(any_text()), plain, values.list, values.object}));
      gemma_ = values;
    }
    return *gemma_;
  }

  const ToolCallFormat& format_;
  Form form_;  ///< of the calls that are written: models of the style mistral read and write objects
  std::string name_;
  ordered_json schema_;
  JsonGrammar& json_;
  GrammarBuilder& grammar_;
  WorkBudget& budget_;
  std::optional<GrammarNode> text_;
  std::optional<GemmaValues> gemma_;
};

}  // namespace

GrammarNode tool_call_node(ToolCallStyle style, const ordered_json& tools, JsonGrammar& json, WorkBudget& budget) {
  std::vector<GrammarNode> calls;
  for (const ordered_json& tool : tools) {
    calls.push_back(CallRules(style, tool, json, budget).call());
  }
  return json.grammar().add_rule("tool-call", json.grammar().choice(calls));
}

}  // namespace rocmforge
