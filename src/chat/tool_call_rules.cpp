#include "chat/tool_call_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/json_document.h"
#include "base/utf8.h"
#include "chat/message_json.h"
#include "chat/tool_call_reader.h"

namespace rocmforge {
namespace {

using nlohmann::ordered_json;
using Form = ToolCallFormat::Form;

/// A literal of the grammar. JSON strings are valid literals.
std::string literal(std::string_view text) { return ordered_json(text).dump(); }

/// The grammar with `prefix` in front of the names of all rules.
std::string with_prefix(std::string_view gbnf, std::string_view prefix) {
  const auto is_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_'; };
  std::string out;
  for (std::size_t i = 0; i < gbnf.size();) {
    const char c = gbnf[i];
    std::size_t end = i + 1;
    if (c == '"' || c == '[') {
      const char close = c == '"' ? '"' : ']';
      while (end < gbnf.size() && gbnf[end] != close) {
        end += gbnf[end] == '\\' ? 2 : 1;
      }
      ++end;
    } else if (c == '#' || c == '{') {
      end = std::min(gbnf.find(c == '#' ? '\n' : '}', i), gbnf.size());
    } else if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      while (end < gbnf.size() && is_name(gbnf[end])) {
        ++end;
      }
      out += prefix;
    }
    out += gbnf.substr(i, end - i);
    i = end;
  }
  return out;
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_unit(text, i).length;
    characters.push_back(text.substr(i, length));
    i += length;
  }
  return characters;
}

/// Makes the rules for calls of one tool. Each function adds the rules that it needs to `rules_`, under names that begin
/// with `prefix`.
class CallRules {
 public:
  CallRules(const ToolCallFormat& format, const ordered_json& tool, std::string prefix, const SchemaToGbnf& schema_to_gbnf)
      : format_(format),
        name_(function_of(tool).at("name").get<std::string>()),
        schema_(parameters_of(tool)),
        prefix_(std::move(prefix)),
        schema_to_gbnf_(schema_to_gbnf) {}

  /// The expression that matches a call. It refers to rules().
  std::string call() {
    if (format_.form == Form::tagged) {
      return tagged_call();
    }
    if (format_.form == Form::gemma) {
      return gemma_call();
    }
    return format_.form == Form::python ? python_call() : named_call();
  }
  [[nodiscard]] const std::string& rules() const { return rules_; }

 private:
  struct Argument {
    std::string name;
    ordered_json schema;
    bool is_required = false;
  };

  /// The name of a rule that matches JSON of a schema.
  std::string json_rule(const std::string& name, const ordered_json& schema) {
    rules_ += with_prefix(schema_to_gbnf_(schema), prefix_ + name + "-") + "\n";
    return fmt::format("{}{}-root", prefix_, name);
  }
  std::string add_rule(const std::string& name, const std::string& body) {
    rules_ += fmt::format("{}{} ::= {}\n", prefix_, name, body);
    return prefix_ + name;
  }

  std::string named_call() {
    const NamedCallMarks& marks = format_.named;
    const std::string number = marks.name_prefix.empty() ? "" : R"( ":" [0-9]{1,3})";
    const std::string id = marks.id.empty() ? "" : fmt::format(" ({} [a-zA-Z0-9]{{9}})?", literal(marks.id));
    std::string call = fmt::format("{}{}{} {} {}", literal(fmt::format("{}{}{}", marks.begin, marks.name_prefix, name_)),
                                   number, id, literal(marks.arguments), json_rule("arguments", schema_));
    return call + (marks.end.empty() ? "" : " " + literal(marks.end));
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

  std::string tagged_call() {
    const TaggedCallMarks& tags = format_.tagged;
    std::string call = literal(fmt::format("{}{}{}\n", tags.begin, name_, tags.name_end));
    const std::string end = literal(fmt::format("{}\n", tags.parameter_end));
    std::size_t count = 0;
    for (const Argument& argument : arguments()) {
      const bool is_text = is_open_text(argument) || text_choices(argument) != nullptr;
      const std::string begin = literal(fmt::format("{}{}{}", tags.parameter, argument.name, before_value(is_text)));
      call += fmt::format(" ({} {} {}){}", begin, tagged_value(argument, count++), end, argument.is_required ? "" : "?");
    }
    if (takes_any_argument()) {
      call +=
          fmt::format(" ({} [^<>\"\\n]+ {} {} {})*", literal(tags.parameter), literal(before_value(true)), text_rule(), end);
    }
    return call + " " + literal(tags.end);
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

  std::string tagged_value(const Argument& argument, std::size_t index) {
    if (const ordered_json* choices = text_choices(argument); choices != nullptr) {
      std::string body;
      for (const ordered_json& each : *choices) {
        body += (body.empty() ? "" : " | ") + each.dump();
      }
      return "(" + body + ")";
    }
    return is_open_text(argument) ? text_rule() : json_rule(fmt::format("value{}", index), argument.schema);
  }

  /// The name of a rule for any text without the tag that ends a value. The rule text<i> matches after the first i
  /// characters of the tag.
  std::string text_rule() {
    if (!has_text_rule_) {
      has_text_rule_ = true;
      const std::vector<std::string_view> end = characters_of(format_.tagged.parameter_end);
      const std::string restart = fmt::format("{} {}text1", literal(end[0]), prefix_);
      add_rule("text", fmt::format("([^{}] | {})*", end[0], restart));
      for (std::size_t i = 1; i < end.size(); ++i) {
        const std::string next = literal(end[i]);
        const std::string more = i + 1 < end.size() ? fmt::format(" | {} {}text{}", next, prefix_, i + 1) : "";
        add_rule(fmt::format("text{}", i), fmt::format("[^{}{}] | {}{}", end[0], end[i], restart, more));
      }
    }
    return prefix_ + "text";
  }

  /// The arguments in order, `pair(i)`, with separators. The rule first<i> matches those from the i-th on if none came
  /// before; rest<i> matches them if one did.
  template <class Pair>
  std::string listed(const std::vector<Argument>& list, std::string_view separator, const Pair& pair) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string own = pair(i);
      const auto skipped = [&](const char* kind) {
        return list[i].is_required ? "" : fmt::format(" | {}{}{}", prefix_, kind, i + 1);
      };
      add_rule(fmt::format("first{}", i), fmt::format("{} {}rest{}{}", own, prefix_, i + 1, skipped("first")));
      add_rule(fmt::format("rest{}", i),
               fmt::format("{} {} {}rest{}{}", literal(separator), own, prefix_, i + 1, skipped("rest")));
    }
    add_rule(fmt::format("first{}", list.size()), R"("")");
    add_rule(fmt::format("rest{}", list.size()), R"("")");
    return prefix_ + "first0";
  }

  std::string python_call() {
    const std::vector<Argument> list = arguments();
    const std::string head = literal(name_ + "(");
    if (takes_any_argument()) {
      const std::string pair = add_rule("pair", "[a-zA-Z_] [a-zA-Z0-9_]* \"=\" " + json_rule("any", true));
      return fmt::format(R"g({0} ({1} (", " {1})*)? ")")g", head, pair);
    }
    const std::string all = listed(list, ", ", [&](std::size_t i) {
      const bool is_flag = list[i].schema.value("type", ordered_json()) == "boolean";
      const std::string value = is_flag ? R"(("True" | "False"))" : json_rule(fmt::format("value{}", i), list[i].schema);
      return fmt::format("{} {}", literal(list[i].name + "="), value);
    });
    return fmt::format(R"g({} {} ")")g", head, all);
  }

  std::string gemma_call() {
    const std::vector<Argument> list = arguments();
    const std::string head = literal(fmt::format("{}{}{{", format_.named.begin, name_));
    if (takes_any_argument()) {
      return fmt::format(R"({} {} "}}")", head, gemma_pairs());
    }
    const std::string all = listed(list, ",", [&](std::size_t i) {
      return fmt::format("{} {}", literal(list[i].name + ":"), gemma_value(list[i], i));
    });
    return fmt::format(R"({} {} "}}")", head, all);
  }

  /// A rule for a value. Texts, numbers and lists of these must match the schema. Other values are not written as JSON, so
  /// only their form is checked.
  std::string gemma_value(const Argument& argument, std::size_t index) {
    const std::string name = fmt::format("value{}", index);
    const ordered_json& schema = referred(argument.schema);
    if (std::string rule = gemma_scalar(name, schema); !rule.empty()) {
      return rule;
    }
    const std::vector<std::string> types = schema_types(schema);
    const bool is_list = types.size() == 1 && types[0] == "array";
    const ordered_json own_items = is_list ? schema.value("items", ordered_json()) : ordered_json();
    const ordered_json& items = referred(own_items);
    if (std::string rule = items.is_object() ? gemma_scalar(name, items) : ""; !rule.empty()) {
      return add_rule(name + "-list", fmt::format(R"("[" ({0} ("," {0})*)? "]")", add_rule(name + "-item", rule)));
    }
    gemma_pairs();
    return prefix_ + (is_list ? "list" : types.size() == 1 && types[0] == "object" ? "object" : "any");
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

  /// A rule for a text of an enum, a number, true, false or null, or any text. "" when the schema may allow other values.
  std::string gemma_scalar(const std::string& name, const ordered_json& schema) {
    const std::string mark = literal(format_.tagged.parameter_end);
    const std::vector<std::string> types = schema_types(schema);
    const auto choices = schema.is_object() ? schema.find("enum") : schema.end();
    if (schema.is_object() && choices != schema.end() && choices->is_array() && !choices->empty() &&
        std::ranges::all_of(*choices, [](const ordered_json& each) { return each.is_string(); })) {
      std::string body;
      for (const ordered_json& each : *choices) {
        body += (body.empty() ? "" : " | ") + each.dump();
      }
      return fmt::format("{} ({}) {}", mark, body, mark);
    }
    const auto is_plain = [](const std::string& type) {
      return type == "integer" || type == "number" || type == "boolean" || type == "null";
    };
    if (!types.empty() && std::ranges::all_of(types, is_plain)) {
      return json_rule(name, schema);
    }
    return types.size() == 1 && types[0] == "string" ? fmt::format("{} {} {}", mark, text_rule(), mark) : "";
  }

  /// A rule for any members of an object. Also adds the rules "any", "list" and "object".
  std::string gemma_pairs() {
    if (!has_any_rule_) {
      has_any_rule_ = true;
      const std::string mark = literal(format_.tagged.parameter_end);
      const std::string text = fmt::format("{} {} {}", mark, text_rule(), mark);
      const std::string plain = json_rule("plain", ordered_json{{"type", {"number", "boolean", "null"}}});
      add_rule("any", fmt::format("{0} | {1} | {2}list | {2}object", text, plain, prefix_));
      add_rule("list", fmt::format(R"("[" ({0}any ("," {0}any)*)? "]")", prefix_));
      add_rule("object", fmt::format(R"("{{" {}pairs "}}")", prefix_));
      add_rule("pair", fmt::format(R"([a-zA-Z_] [a-zA-Z0-9_-]* ":" {}any)", prefix_));
      add_rule("pairs", fmt::format(R"(({0}pair ("," {0}pair)*)?)", prefix_));
    }
    return prefix_ + "pairs";
  }

  const ToolCallFormat& format_;
  std::string name_;
  ordered_json schema_;
  std::string prefix_;
  const SchemaToGbnf& schema_to_gbnf_;
  std::string rules_;
  bool has_text_rule_ = false;
  bool has_any_rule_ = false;
};

}  // namespace

std::string tool_call_rules(const ToolCallFormat& format, const ordered_json& tools, const SchemaToGbnf& schema_to_gbnf) {
  std::string calls;
  std::string rules;
  std::size_t count = 0;
  for (const ordered_json& tool : tools) {
    CallRules made(format, tool, fmt::format("tool{}-", count++), schema_to_gbnf);
    calls += (calls.empty() ? "" : " | ") + made.call();
    rules += made.rules();
  }
  return fmt::format("tool-call ::= {}\n{}", calls, rules);
}

}  // namespace rocmforge
