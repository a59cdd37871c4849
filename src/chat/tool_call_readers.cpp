#include <algorithm>
#include <cctype>
#include <vector>

#include "base/blanks.h"
#include "base/json.h"
#include "chat/python_literal.h"
#include "chat/tool_call_object.h"
#include "chat/tool_call_reader.h"

namespace rocmforge {
namespace {

using nlohmann::ordered_json;

std::string json_string(std::string_view text) {
  return ordered_json(text).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// Reads `f[CALL_ID]id[ARGS]{...}`, `<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{...}` and similar forms.
class NamedCallReader final : public ToolCallReader {
 public:
  explicit NamedCallReader(const NamedCallMarks& marks) : marks_(marks) {}

 private:
  void step(char c) override {
    if (has_name()) {
      arguments_ += c;
      nesting_.feed(c);
      status_ = nesting_.is_inside() ? Status::reading : Status::done;
      return;
    }
    if (c == '{') {
      read_head(trimmed(head_));
      status_ = has_name() ? Status::reading : Status::failed;
      arguments_ = c;
      nesting_.feed(c);
      return;
    }
    const bool is_second_word = !is_blank(head_) && is_blank(head_.substr(head_.size() - 1)) && !is_blank({&c, 1});
    head_ += c;
    const std::string_view head = trimmed(head_);
    const bool has_begin = head.starts_with(marks_.begin) || marks_.begin.starts_with(head);
    const std::size_t longest = longest_call_name + marks_.begin.size() + marks_.arguments.size();
    const bool fails = !has_begin || (is_second_word && marks_.begin.empty()) || head_.size() > longest;
    status_ = fails ? Status::failed : Status::reading;
  }

  /// Reads the name and the id. Leaves the name empty when `head` can't begin a call.
  void read_head(std::string_view head) {
    const std::string_view mark = trimmed(marks_.arguments);
    if (!head.starts_with(marks_.begin) || (!marks_.begin.empty() && !head.ends_with(mark))) {
      return;
    }
    head.remove_prefix(marks_.begin.size());
    head.remove_suffix(head.ends_with(mark) ? mark.size() : 0);
    head = trimmed(head);
    if (head.find_first_of(blanks) != std::string_view::npos) {
      return;
    }
    if (!marks_.id.empty()) {
      const std::size_t id = std::min(head.find(marks_.id), head.size());
      id_ = head.substr(std::min(id + marks_.id.size(), head.size()));
      name_ = head.substr(0, id);
      return;
    }
    if (marks_.name_prefix.empty()) {
      name_ = head;
      return;
    }
    id_ = head;  // "functions.f:0"
    head.remove_prefix(head.starts_with(marks_.name_prefix) ? marks_.name_prefix.size() : 0);
    const std::size_t colon = head.rfind(':');
    const bool has_number = colon != std::string_view::npos && colon + 1 < head.size() &&
                            head.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
    name_ = head.substr(0, has_number ? colon : head.size());
  }

  const NamedCallMarks& marks_;
  std::string head_;
  Nesting nesting_;
};

/// The types of an argument of a tool; empty when the tools do not define them.
std::vector<std::string> argument_types(const ordered_json* tools, const std::string& function,
                                        const std::string& argument) {
  if (tools == nullptr) {
    return {};
  }
  for (const ordered_json& tool : *tools) {
    const ordered_json& held = tool.contains("function") ? tool["function"] : tool;
    if (held.value("name", "") != function) {
      continue;
    }
    const auto place = ordered_json::json_pointer() / "parameters" / "properties" / argument;
    return held.contains(place) ? schema_types(held.at(place)) : std::vector<std::string>();
  }
  return {};
}

/// Reads `<function=f><parameter=a>1</parameter></function>` and
/// `f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>`. A value is text if the tool allows a string, else the JSON
/// or Python value that it is written as.
class TaggedCallReader final : public ToolCallReader {
 public:
  TaggedCallReader(const TaggedCallMarks& marks, const ordered_json* tools)
      : marks_(marks), tools_(tools), place_(marks.begin.empty() ? Place::name : Place::begin) {}

 private:
  enum class Place { begin, name, between, key, before_value, value };

  void step(char c) override {
    held_ += c;
    const bool in_tag = place_ == Place::begin || place_ == Place::between || place_ == Place::before_value;
    if (in_tag && is_blank(held_)) {
      held_.clear();
      return;
    }
    switch (place_) {
      case Place::begin:
        if (held_ == marks_.begin) {
          go_on(Place::name);
        } else if (!marks_.begin.starts_with(held_)) {
          status_ = Status::failed;
        }
        break;
      case Place::name:
        if (marks_.name_end.empty()) {
          step_open_name(c);
        } else if (read_name(marks_.name_end, name_)) {
          arguments_ = "{";
          go_on(Place::between);
        }
        break;
      case Place::between:
        step_between();
        break;
      case Place::key:
        step_key();
        break;
      case Place::before_value:
        if (held_ == marks_.value) {
          go_on(Place::value);
        } else if (!marks_.value.starts_with(held_)) {
          status_ = Status::failed;
        }
        break;
      case Place::value:
        if (held_.ends_with(marks_.parameter_end)) {
          held_.resize(held_.size() - marks_.parameter_end.size());
          add_argument();
          go_on(Place::between);
        }
        break;
    }
  }

  void go_on(Place place) {
    place_ = place;
    held_.clear();
  }

  /// Reads a name without a mark at its end. The text after it shows whether it is a name and not the beginning of a text.
  void step_open_name(char c) {
    if (c != '\n' && c != '<') {
      const bool is_text = trimmed(held_).find_first_of(blanks) != std::string_view::npos;
      status_ = is_text || held_.size() > longest_call_name ? Status::failed : Status::reading;
      return;
    }
    function_ = trimmed(std::string_view(held_).substr(0, held_.size() - 1));
    status_ = function_.empty() ? Status::failed : Status::reading;
    go_on(Place::between);
    if (c == '<') {
      held_ = c;
    }
  }

  void step_key() {
    is_text_ = !marks_.string_name_end.empty() && held_.ends_with(marks_.string_name_end);
    if (read_name(is_text_ ? marks_.string_name_end : marks_.parameter_name_end, key_)) {
      go_on(marks_.value.empty() ? Place::value : Place::before_value);
    }
  }

  bool read_name(std::string_view end, std::string& name) {
    if (held_.ends_with(end)) {
      name = trimmed(std::string_view(held_).substr(0, held_.size() - end.size()));
      status_ = name.empty() ? Status::failed : Status::reading;
      return !name.empty();
    }
    status_ = held_.back() == '\n' || held_.size() > longest_call_name ? Status::failed : Status::reading;
    return false;
  }

  void step_between() {
    if (!has_name() && (held_ == marks_.end || held_ == marks_.parameter)) {
      name_ = function_;
      arguments_ = "{";
    }
    if (held_ == marks_.end) {
      arguments_ += '}';
      status_ = Status::done;
    } else if (held_ == marks_.parameter) {
      go_on(Place::key);
    } else if (!marks_.end.starts_with(held_) && !marks_.parameter.starts_with(held_)) {
      status_ = Status::failed;
    }
  }

  void add_argument() {
    std::string_view text = held_;
    if (marks_.string_name_end.empty()) {  // the value may stand on lines of its own
      text.remove_prefix(text.starts_with('\n') ? 1 : 0);
      text.remove_suffix(text.ends_with('\n') ? 1 : 0);
    }
    const std::vector<std::string> types = argument_types(tools_, name_, key_);
    const auto may_be = [&](std::string_view type) { return std::ranges::find(types, type) != types.end(); };
    const bool is_null = may_be("null") && trimmed(text) == "null";
    const bool is_text = is_text_ || (marks_.string_name_end.empty() && may_be("string") && !is_null);
    const auto literal = is_text ? std::nullopt : json_of_literal(text);
    arguments_ += (has_arguments_ ? ", " : "") + json_string(key_) + ": " + literal.value_or(json_string(text));
    has_arguments_ = true;
  }

  const TaggedCallMarks& marks_;
  const ordered_json* tools_;
  Place place_;
  std::string held_, function_, key_;
  bool has_arguments_ = false;
  bool is_text_ = false;  // the mark says that the value is a text
};

/// Reads `{"f": {...}}`.
class KeyedCallReader final : public ToolCallReader {
 private:
  enum class Place { before, key, colon, value, behind };

  void step(char c) override {
    if (place_ == Place::value) {
      if (!nesting_.is_inside() && c != '{') {
        status_ = is_blank({&c, 1}) ? Status::reading : Status::failed;
        return;
      }
      arguments_ += c;
      nesting_.feed(c);
      place_ = nesting_.is_inside() ? place_ : Place::behind;
      return;
    }
    if (place_ == Place::key) {
      held_ += c;
      const bool ends = !escaped_ && c == '"';
      escaped_ = !escaped_ && c == '\\';
      if (ends) {
        const auto key = ordered_json::parse("\"" + held_, nullptr, false);
        function_ = key.is_string() ? key.get<std::string>() : "";
        place_ = Place::colon;
      }
      status_ = (ends && function_.empty()) || held_.size() > longest_call_name ? Status::failed : Status::reading;
      return;
    }
    if (is_blank({&c, 1})) {
      return;
    }
    if (place_ == Place::behind) {
      status_ = c == '}' ? Status::done : Status::failed;
    } else if (place_ == Place::colon) {
      name_ = c == ':' ? function_ : "";
      status_ = c == ':' ? Status::reading : Status::failed;
      place_ = Place::value;
    } else {
      const char expected = held_.empty() ? '{' : '"';
      held_ = c == '{' ? "{" : "";
      status_ = c == expected ? Status::reading : Status::failed;
      place_ = c == '"' ? Place::key : place_;
    }
  }

  Place place_ = Place::before;
  std::string held_, function_;
  Nesting nesting_;
  bool escaped_ = false;
};

/// Reads `f(a=1, b="x")`.
class PythonCallReader final : public ToolCallReader {
 private:
  enum class Place { name, key, value };

  void step(char c) override {
    if (place_ == Place::value) {
      step_value(c);
      return;
    }
    const bool ends_name = place_ == Place::name && c == '(';
    const bool ends_key = place_ == Place::key && c == '=';
    if (ends_name || ends_key) {
      (ends_name ? function_ : key_) = trimmed(held_);
      status_ = trimmed(held_).empty() ? Status::failed : Status::reading;
      place_ = ends_name ? Place::key : Place::value;
      held_.clear();
      nesting_ = {};
      if (ends_key) {
        begin_arguments();
      }
    } else if (place_ == Place::key && c == ')' && is_blank(held_)) {
      begin_arguments();
      arguments_ += '}';
      status_ = Status::done;
    } else {
      const bool is_second_word = !is_blank(held_) && is_blank(held_.substr(held_.size() - 1)) && !is_blank({&c, 1});
      constexpr std::string_view never = "()[]{}=,:;'\"<>|";
      held_ += c;
      const bool fails = is_second_word || never.find(c) != std::string_view::npos || held_.size() > longest_call_name;
      status_ = fails ? Status::failed : Status::reading;
    }
  }

  /// Called when the parentheses contain a named argument or nothing: then this is a call, not a text with parentheses.
  void begin_arguments() {
    if (!has_name()) {
      name_ = function_;
      arguments_ = "{";
    }
  }

  void step_value(char c) {
    if (nesting_.is_inside() || std::string_view(",)]}").find(c) == std::string_view::npos) {
      held_ += c;
      nesting_.feed(c);
      return;
    }
    const std::string text(trimmed(held_));
    if (text.empty() || (c != ',' && c != ')')) {
      status_ = Status::failed;
      return;
    }
    arguments_ +=
        (has_arguments_ ? ", " : "") + json_string(key_) + ": " + json_of_literal(text).value_or(json_string(text));
    has_arguments_ = true;
    held_.clear();
    place_ = Place::key;
    if (c == ')') {
      arguments_ += '}';
      status_ = Status::done;
    }
  }

  Place place_ = Place::name;
  std::string held_, function_, key_;
  Nesting nesting_;
  bool has_arguments_ = false;
};

}  // namespace

std::vector<std::string> schema_types(const ordered_json& schema) {
  std::vector<std::string> types;
  const auto add_types = [&](const ordered_json& each) {
    const auto type = each.is_object() ? each.find("type") : each.end();
    if (!each.is_object() || type == each.end()) {
      return;
    }
    for (const ordered_json& one : type->is_array() ? *type : ordered_json::array({*type})) {
      types.push_back(one.is_string() ? one.get<std::string>() : "");
    }
  };
  add_types(schema);
  for (const char* key : {"anyOf", "oneOf"}) {
    if (schema.is_object() && schema.contains(key) && schema[key].is_array()) {
      std::ranges::for_each(schema[key], add_types);
    }
  }
  for (const char* key : {"enum", "const"}) {
    if (types.empty() && schema.is_object() && schema.contains(key)) {
      const ordered_json& values = schema[key];
      types.emplace_back((values.is_array() && !values.empty() ? values[0] : values).type_name());
    }
  }
  return types;
}

std::unique_ptr<ToolCallReader> make_tool_call_reader(const ToolCallFormat& format, bool in_list, char first,
                                                      const ordered_json* tools) {
  using Form = ToolCallFormat::Form;
  if (first != '{' && format.form == Form::named && !in_list) {
    return std::make_unique<NamedCallReader>(format.named);
  }
  const bool is_tag = first == '<' && !format.tagged.begin.empty();
  if ((first != '{' && format.form == Form::tagged) || is_tag) {
    return std::make_unique<TaggedCallReader>(format.tagged, tools);
  }
  if (first != '{' && format.form == Form::python) {
    return std::make_unique<PythonCallReader>();
  }
  if (first != '{' && format.form == Form::gemma) {
    return make_gemma_call_reader();
  }
  if (format.form == Form::keyed) {
    return std::make_unique<KeyedCallReader>();
  }
  return std::make_unique<ToolCallObject>();
}

}  // namespace rocmforge
