#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "chat/jinja/filters.h"
#include "chat/jinja/format.h"
#include "chat/jinja/methods.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/text_operations.h"
#include "chat/jinja/unicode.h"

namespace rocmforge::jinja {
namespace {

template <Text (*operation)(const Text&)>
Value filter_of(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "a filter of text", arguments, {});
  const Text text = to_text(run, value);
  run.spend(text.size() / 4);
  return run.text(operation(text));
}

Text unchanged(const Text& text) { return text; }

/// Words begin after white space, '-', '(', '{', '[' and '<'.
Text title_words(const Text& text) {
  Text out;
  bool begins = true;
  for (std::size_t byte = 0; byte < text.size();) {
    const std::size_t size = character_bytes(text.bytes(), byte);
    const char32_t code = character_at(text.bytes(), byte);
    const bool parts =
        is_space(code) || (code < 0x80 && std::string_view("-({[<").find(static_cast<char>(code)) != std::string_view::npos);
    const Text character = text.part(byte, size);
    out.append(parts ? character : (begins ? upper(character) : lower(character)));
    begins = parts;
    byte += size;
  }
  return out;
}

Text force_escape(const Text& text) {
  Text plain_text = text;
  plain_text.mark(false);
  return escape(plain_text);
}

Text safe(const Text& text) {
  Text marked = text;
  marked.mark(true);
  return marked;
}

Value trim_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "trim", arguments, {"chars"});
  const bool given = bound.has(0) && !bound[0].is_none();
  run.spend_search(value.weight() * 16, given ? bound.text(0).size() : 0);
  return run.text(
      strip(to_text(run, value), given ? std::optional<std::string_view>(bound.text(0).bytes()) : std::nullopt, true, true));
}

Value replace_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "replace", arguments, {"old", "new", "count"}, 2);
  const Text text = to_text(run, value);
  const Text old = to_text(run, bound[0]);
  const Text with = to_text(run, bound[1]);
  run.spend_search(text.size(), old.size());
  run.check_size(text.size() + count(text.bytes(), old.bytes()) * with.size());
  const bool limited = bound.has(2) && !bound[2].is_none();
  return run.text(replace(text, old.bytes(), with, limited ? bound.integer(2, -1) : -1));
}

Value join_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "join", arguments, {"d", "attribute"});
  const Text separator = bound.has(0) ? to_text(run, bound[0]) : Text();
  Text out;
  bool first = true;
  for (const Value& item : items(run, value)) {
    const bool by_attribute = bound.has(1) && !bound[1].is_none();
    const Text text = to_text(run, by_attribute ? find_attribute(run, item, bound[1]) : item);
    run.check_size(out.size() + separator.size() + text.size());
    if (!std::exchange(first, false)) {
      out.append(separator);
    }
    out.append(text);
  }
  return run.text(std::move(out));
}

Value indent_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "indent", arguments, {"width", "first", "blank"});
  if (value.text() == nullptr) {
    run.fail(value.is_undefined() ? value.reason() : fmt::format("indent: a text is needed, not {}", value.type_name()));
  }
  Text indention;
  if (bound.has(0) && bound[0].text() != nullptr) {
    indention = bound.text(0);
  } else {
    const std::int64_t width = std::max<std::int64_t>(0, bound.integer(0, 4));
    run.check_size(static_cast<std::size_t>(width));
    indention = Text(std::string(static_cast<std::size_t>(width), ' '), true);
  }
  Text whole = *value.text();
  whole.append("\n", true);
  run.spend(whole.size());
  run.check_memory(count_lines(whole.bytes()) * sizeof(Text) * 2);
  const std::vector<Text> lines = split_lines(whole, false);
  run.check_size(whole.size() + lines.size() * (indention.size() + 1));
  Text out;
  out.mark(whole.is_markup());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out.append("\n", true);
    }
    if (i == 0 ? bound.flag(1, false) : (bound.flag(2, false) || !lines[i].empty())) {
      out.append(indention);
    }
    out.append(lines[i]);
  }
  return run.text(std::move(out));
}

Value word_count_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "wordcount", arguments, {});
  const Text text = to_text(run, value);
  run.spend(text.size());
  Integer words = 0;
  bool inside = false;
  for (std::size_t byte = 0; byte < text.size();) {
    const std::size_t size = character_bytes(text.bytes(), byte);
    const std::string_view character = std::string_view(text.bytes()).substr(byte, size);
    const bool is_word =
        character == "_" || is_kind(CharacterKind::letter, character) || is_kind(CharacterKind::numeric, character);
    words += is_word && !inside ? 1 : 0;
    inside = is_word;
    byte += size;
  }
  return Value::integer(words);
}

Value truncate_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "truncate", arguments, {"length", "killwords", "end", "leeway"});
  const Text text = to_text(run, value);
  const Text end = bound.has(2) ? bound.text(2) : Text("...", true);
  const bool has_leeway = bound.has(3) && !bound[3].is_none();
  const std::int64_t leeway = has_leeway ? bound.integer(3, 5) : 5;
  const std::int64_t limit = bound.integer(0, 255);
  const auto end_length = static_cast<std::int64_t>(count_characters(end.bytes()));
  if (limit < end_length || leeway < 0) {
    run.fail("truncate: the length must not be less than that of the end, the leeway not negative");
  }
  if (static_cast<std::int64_t>(count_characters(text.bytes())) <= limit + leeway) {
    return run.text(text);
  }
  Text out = text.part(0, byte_of_character(text.bytes(), static_cast<std::size_t>(limit - end_length)));
  const std::size_t space = out.bytes().rfind(' ');
  if (!bound.flag(1, false) && space != std::string::npos) {
    out = out.part(0, space);
  }
  out.append(fitting(end, text));
  return run.text(std::move(out));
}

Value center_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "center", arguments, {"width"});
  Arguments width;
  width.positional.push_back(bound.value(0, Value::integer(80)));
  return find_text_method("center")(run, run.text(to_text(run, value)), width);
}

Value format_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    run.fail("format takes arguments by position or by name, not both");
  }
  if (arguments.named.empty()) {
    return format_percent(run, to_text(run, value), run.sequence(Sequence::Kind::tuple, arguments.positional));
  }
  Mapping named;
  for (const auto& [name, argument] : arguments.named) {
    named.set(name, argument);
  }
  return format_percent(run, to_text(run, value), run.mapping(std::move(named)));
}

constexpr std::array<NamedFilter, 17> text_filters = {{
    {"upper", filter_of<upper>},
    {"lower", filter_of<lower>},
    {"capitalize", filter_of<capitalize>},
    {"title", filter_of<title_words>},
    {"string", filter_of<unchanged>},
    {"safe", filter_of<safe>},
    {"escape", filter_of<escape>},
    {"e", filter_of<escape>},
    {"forceescape", filter_of<force_escape>},
    {"trim", trim_filter},
    {"replace", replace_filter},
    {"join", join_filter},
    {"indent", indent_filter},
    {"wordcount", word_count_filter},
    {"truncate", truncate_filter},
    {"center", center_filter},
    {"format", format_filter},
}};

}  // namespace

Filter find_text_filter(std::string_view name) { return find_in(text_filters, name); }

}  // namespace rocmforge::jinja
