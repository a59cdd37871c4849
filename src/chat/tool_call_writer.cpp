#include "chat/tool_call_writer.h"

#include <fmt/format.h>

#include <string_view>

#include "base/json_document.h"
#include "chat/python_literal.h"

namespace rocmforge {
namespace {

using nlohmann::ordered_json;
using Form = ToolCallFormat::Form;

class CallWriter {
 public:
  explicit CallWriter(const ToolCallFormat& format) : format_(format) {}

  [[nodiscard]] std::string call(const ordered_json& call, std::size_t index) const {
    const auto name = call.at("name").get<std::string>();
    const ordered_json& arguments = call.at("arguments");
    switch (format_.form) {
      case Form::named:
        return is_object_list() ? object(name, arguments) : named(name, arguments, index);
      case Form::tagged:
        return tagged(name, arguments);
      case Form::python:
        return fmt::format("{}({})", name, joined(arguments, ", ", [](const std::string& key, const ordered_json& value) {
                             return fmt::format("{}={}", key, python_of_json(json_text(value)));
                           }));
      case Form::gemma:
        return fmt::format("{}{}{{{}}}", format_.named.begin, name,
                           joined(arguments, ",", [this](const std::string& key, const ordered_json& value) {
                             const std::string_view mark = format_.tagged.parameter_end;
                             return value.is_string() ? fmt::format("{}:{}{}{}", key, mark, value.get<std::string>(), mark)
                                                      : fmt::format("{}:{}", key, json_text(value));
                           }));
      case Form::keyed:
        return json_text({{name, arguments}});
      case Form::object:
        break;
    }
    return object(name, arguments);
  }

 private:
  /// A style with names in front of the arguments whose calls may also be a list of objects.
  [[nodiscard]] bool is_object_list() const { return format_.is_list && !format_.opens_each; }

  [[nodiscard]] std::string object(const std::string& name, const ordered_json& arguments) const {
    return json_text({{format_.keys.name, name}, {format_.keys.arguments, arguments}});
  }

  [[nodiscard]] std::string named(const std::string& name, const ordered_json& arguments, std::size_t index) const {
    const NamedCallMarks& marks = format_.named;
    const std::string number = marks.name_prefix.empty() ? "" : fmt::format(":{}", index);
    return fmt::format("{}{}{}{}{}{}{}", marks.begin, marks.name_prefix, name, number, marks.arguments, json_text(arguments),
                       marks.end);
  }

  [[nodiscard]] std::string tagged(const std::string& name, const ordered_json& arguments) const {
    const TaggedCallMarks& tags = format_.tagged;
    std::string text = fmt::format("{}{}{}\n", tags.begin, name, tags.name_end);
    for (auto each = arguments.begin(); arguments.is_object() && each != arguments.end(); ++each) {
      const bool is_text = each->is_string();
      const bool has_own_end = is_text && !tags.string_name_end.empty();
      text += fmt::format("{}{}{}{}{}{}{}\n", tags.parameter, each.key(),
                          has_own_end ? tags.string_name_end : tags.parameter_name_end, tags.value.empty() ? "" : "\n",
                          tags.value, is_text ? each->get<std::string>() : json_text(*each), tags.parameter_end);
    }
    return text + std::string(tags.end);
  }

  template <class Pair>
  static std::string joined(const ordered_json& arguments, std::string_view separator, const Pair& pair) {
    std::string text;
    for (auto each = arguments.begin(); arguments.is_object() && each != arguments.end(); ++each) {
      text += text.empty() ? "" : separator;
      text += pair(each.key(), *each);
    }
    return text;
  }

  const ToolCallFormat& format_;
};

}  // namespace

std::string written_tool_calls(ToolCallStyle style, const ordered_json& calls) {
  if (style == ToolCallStyle::generic) {
    return json_text({{"tool_calls", calls}});
  }
  const ToolCallFormat& format = tool_call_format(style);
  const CallWriter writer(format);
  std::string text = std::string(format.is_marked ? format.opening : "") + std::string(format.before);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    text += i == 0 ? "" : format.between;
    text += writer.call(calls[i], i);
  }
  return text + std::string(format.after);
}

}  // namespace rocmforge
