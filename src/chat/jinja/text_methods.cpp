#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "chat/jinja/format.h"
#include "chat/jinja/methods.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/text_operations.h"
#include "chat/jinja/unicode.h"

namespace rocmforge::jinja {
namespace {

Value texts(Interpreter& run, std::vector<Text> parts) {
  std::vector<Value> values;
  for (Text& part : parts) {
    values.push_back(run.text(std::move(part)));
  }
  return run.list(std::move(values));
}

template <bool from_right>
Value split_method(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "split", arguments, {"sep", "maxsplit"});
  const std::int64_t limit = bound.integer(1, -1);
  const Text& text = *self.text();
  if (!bound.has(0) || bound[0].is_none()) {
    run.spend(text.size());
    run.check_memory(count_words(text.bytes()) * sizeof(Text) * 2);
    return texts(run, split_at_space(text, limit, from_right));
  }
  const std::string& separator = bound.text(0).bytes();
  if (separator.empty()) {
    run.fail("split: the separator is empty");
  }
  run.spend_search(text.size(), separator.size());
  run.check_memory((count(text.bytes(), separator) + 1) * sizeof(Text) * 2);
  return texts(run, split(*self.text(), bound.text(0).bytes(), limit, from_right));
}

Value split_lines_method(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "splitlines", arguments, {"keepends"});
  run.spend(self.text()->size());
  run.check_memory(count_lines(self.text()->bytes()) * sizeof(Text) * 2);
  return texts(run, split_lines(*self.text(), bound.flag(0, false)));
}

template <bool left, bool right>
Value strip_method(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "strip", arguments, {"chars"});
  const bool given = bound.has(0) && !bound[0].is_none();
  const auto characters = given ? std::optional<std::string_view>(bound.text(0).bytes()) : std::nullopt;
  run.spend_search(self.text()->size(), given ? bound.text(0).size() : 0);
  return run.text(strip(*self.text(), characters, left, right));
}

Value replace_method(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "replace", arguments, {"old", "new", "count"}, 2);
  const Text& old = bound.text(0);
  const std::int64_t limit = bound.integer(2, -1);
  run.spend_search(self.text()->size(), old.size());
  const Text with = fitting(bound.text(1), *self.text());
  run.check_size(self.text()->size() + count(self.text()->bytes(), old.bytes()) * with.size());
  Text out = replace(*self.text(), old.bytes(), with, limit);
  out.mark(self.text()->is_markup());
  return run.text(std::move(out));
}

/// The part of the text from the optional start argument to the optional end argument.
std::string_view window(const Value& self, const Bound& bound, Interpreter& run) {
  const Value none(None{});
  if (!bound.has(1) && !bound.has(2)) {
    return self.text()->bytes();
  }
  const Value part = slice(run, self, bound.value(1, none), bound.value(2, none), none);
  const std::string_view bytes = self.text()->bytes();
  const auto length = static_cast<Integer>(count_characters(bytes));
  Integer start = bound.has(1) && bound[1].whole().has_value() ? *bound[1].whole() : 0;
  start = std::clamp<Integer>(start < 0 ? start + length : start, 0, length);
  return bytes.substr(byte_of_character(bytes, static_cast<std::size_t>(start)), part.text()->size());
}

template <bool at_start>
Value starts_or_ends(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, at_start ? "startswith" : "endswith", arguments, {"prefix", "start", "end"}, 1);
  const std::string_view text = window(self, bound, run);
  const auto matches = [text](const Text& part) {
    return at_start ? text.starts_with(part.bytes()) : text.ends_with(part.bytes());
  };
  const Sequence* several = bound[0].sequence();
  if (several == nullptr || several->kind != Sequence::Kind::tuple) {
    return Value::boolean(matches(bound.text(0)));
  }
  return Value::boolean(std::ranges::any_of(several->items, [&](const Value& each) {
    if (each.text() == nullptr) {
      run.fail(fmt::format("a tuple of texts is needed, not of {}", each.type_name()));
    }
    return matches(*each.text());
  }));
}

template <bool from_right, bool must_be_there>
Value find_method_of_text(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, must_be_there ? "index" : "find", arguments, {"sub", "start", "end"}, 1);
  const std::string_view text = window(self, bound, run);
  const std::string& part = bound.text(0).bytes();
  run.spend_search(self.text()->size(), part.size());
  const std::size_t found = from_right ? text.rfind(part) : text.find(part);
  if (found == std::string_view::npos) {
    if (must_be_there) {
      run.fail(fmt::format("index: the text does not hold '{}'", part));
    }
    return Value::integer(-1);
  }
  const std::string_view whole = self.text()->bytes();
  const auto byte = static_cast<std::size_t>(text.data() - whole.data()) + found;
  return Value::integer(static_cast<Integer>(count_characters(whole.substr(0, byte))));
}

Value count_method(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "count", arguments, {"sub", "start", "end"}, 1);
  run.spend_search(self.text()->size(), bound.text(0).size());
  return Value::integer(static_cast<Integer>(count(window(self, bound, run), bound.text(0).bytes())));
}

template <Text (*operation)(const Text&)>
Value method_of(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "a method of text", arguments, {});
  run.spend(self.text()->size() / 4);
  return run.text(operation(*self.text()));
}

/// The first letter of each word in upper case, the others in lower case. Words are sequences of letters.
Text title(const Text& text) {
  Text out;
  out.mark(text.is_markup());
  bool inside = false;
  for (std::size_t byte = 0; byte < text.size();) {
    const std::size_t size = character_bytes(text.bytes(), byte);
    const Text character = text.part(byte, size);
    out.append(inside ? lower(character) : upper(character));
    inside = is_kind(CharacterKind::letter, character.bytes());
    byte += size;
  }
  return out;
}

Value join_method(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "join", arguments, {"iterable"}, 1);
  Text out;
  out.mark(self.text()->is_markup());
  bool first = true;
  for (const Value& each : items(run, bound[0])) {
    if (each.text() == nullptr) {
      run.fail(fmt::format("join: a text is needed, not {}", each.type_name()));
    }
    run.check_size(out.size() + self.text()->size() + each.text()->size());
    if (!std::exchange(first, false)) {
      out.append(*self.text());
    }
    out.append(fitting(*each.text(), *self.text()));
  }
  return run.text(std::move(out));
}

Value format_method(Interpreter& run, const Value& self, const Arguments& arguments) {
  return format_braces(run, *self.text(), arguments);
}

template <bool from_right>
Value partition_method(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "partition", arguments, {"sep"}, 1);
  const Text& text = *self.text();
  const std::string& separator = bound.text(0).bytes();
  if (separator.empty()) {
    run.fail("partition: the separator is empty");
  }
  run.spend_search(text.size(), separator.size());
  const std::size_t found = from_right ? text.bytes().rfind(separator) : text.bytes().find(separator);
  std::vector<Value> parts;
  if (found == std::string::npos) {
    parts = {self, run.literal(""), run.literal("")};
    if (from_right) {
      std::ranges::reverse(parts);
    }
  } else {
    const std::size_t end = found + separator.size();
    parts = {run.text(text.part(0, found)), run.text(text.part(found, separator.size())),
             run.text(text.part(end, text.size() - end))};
  }
  return run.sequence(Sequence::Kind::tuple, std::move(parts));
}

enum class Side { left, right, both };

/// Fills a text up to a width. Side::left puts the text on the left.
template <Side side>
Value fill_method(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "a method that fills up", arguments, {"width", "fillchar"}, 1);
  const Text fill = bound.has(1) ? bound.text(1) : Text(" ", true);
  if (count_characters(fill.bytes()) != 1) {
    run.fail("the fill character must be a single character");
  }
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(0, bound.integer(0, 0)));
  const std::size_t length = count_characters(self.text()->bytes());
  const std::size_t missing = width > length ? width - length : 0;
  run.check_size(self.text()->size() + missing * fill.size());
  run.spend(missing);
  // When the width is odd, Python puts an odd remaining space on the left.
  const std::size_t centred = missing / 2 + (missing & width & 1U);
  const std::size_t before = side == Side::left ? 0 : (side == Side::right ? missing : centred);
  Text out;
  out.mark(self.text()->is_markup());
  for (std::size_t i = 0; i < missing; ++i) {
    if (i == before) {
      out.append(*self.text());
    }
    out.append(fill);
  }
  if (before == missing) {
    out.append(*self.text());
  }
  return run.text(std::move(out));
}

Value zfill_method(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "zfill", arguments, {"width"}, 1);
  const Text& text = *self.text();
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(0, bound.integer(0, 0)));
  const std::size_t length = count_characters(text.bytes());
  const std::size_t sign = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+') ? 1 : 0;
  const std::size_t missing = width > length ? width - length : 0;
  run.check_size(text.size() + missing);
  Text out = text.part(0, sign);
  out.append(std::string(missing, '0'), true);
  out.append(text, sign, text.size() - sign);
  return run.text(std::move(out));
}

template <bool prefix>
Value remove_method(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, prefix ? "removeprefix" : "removesuffix", arguments, {"part"}, 1);
  const Text& text = *self.text();
  const std::string& part = bound.text(0).bytes();
  if (!(prefix ? text.bytes().starts_with(part) : text.bytes().ends_with(part))) {
    return self;
  }
  return run.text(text.part(prefix ? part.size() : 0, text.size() - part.size()));
}

bool is_alphanumeric(std::string_view character) {
  return is_kind(CharacterKind::letter, character) || is_kind(CharacterKind::numeric, character);
}
template <CharacterKind kind>
bool is_of(std::string_view character) {
  return is_kind(kind, character);
}
bool is_white(std::string_view character) { return is_space(character_at(character, 0)); }

template <bool (*test)(std::string_view)>
Value all_method(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "a test of text", arguments, {});
  const std::string_view text = self.text()->bytes();
  run.spend(text.size());
  for (std::size_t byte = 0; byte < text.size();) {
    const std::size_t size = character_bytes(text, byte);
    if (!test(text.substr(byte, size))) {
      return Value::boolean(false);
    }
    byte += size;
  }
  return Value::boolean(!text.empty());
}

/// isupper and islower: there is a letter of this case and none of the other.
template <bool upper_case>
Value case_method(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, "a test of text", arguments, {});
  const std::string_view text = self.text()->bytes();
  run.spend(text.size());
  bool found = false;
  for (std::size_t byte = 0; byte < text.size();) {
    const std::size_t size = character_bytes(text, byte);
    const std::string_view character = text.substr(byte, size);
    byte += size;
    if (is_kind(upper_case ? CharacterKind::lower : CharacterKind::upper, character)) {
      return Value::boolean(false);
    }
    found = found || is_kind(upper_case ? CharacterKind::upper : CharacterKind::lower, character);
  }
  return Value::boolean(found);
}

struct NamedTextMethod {
  std::string_view name;
  Method method;
};

constexpr std::array<NamedTextMethod, 37> methods = {{
    {"capitalize", method_of<capitalize>},
    {"center", fill_method<Side::both>},
    {"count", count_method},
    {"endswith", starts_or_ends<false>},
    {"find", find_method_of_text<false, false>},
    {"format", format_method},
    {"index", find_method_of_text<false, true>},
    {"isalnum", all_method<is_alphanumeric>},
    {"isalpha", all_method<is_of<CharacterKind::letter>>},
    {"isdecimal", all_method<is_of<CharacterKind::digit>>},
    {"isdigit", all_method<is_of<CharacterKind::digit>>},
    {"islower", case_method<false>},
    {"isnumeric", all_method<is_of<CharacterKind::numeric>>},
    {"isspace", all_method<is_white>},
    {"isupper", case_method<true>},
    {"join", join_method},
    {"ljust", fill_method<Side::left>},
    {"lower", method_of<lower>},
    {"lstrip", strip_method<true, false>},
    {"partition", partition_method<false>},
    {"removeprefix", remove_method<true>},
    {"removesuffix", remove_method<false>},
    {"replace", replace_method},
    {"rfind", find_method_of_text<true, false>},
    {"rindex", find_method_of_text<true, true>},
    {"rjust", fill_method<Side::right>},
    {"rpartition", partition_method<true>},
    {"rsplit", split_method<true>},
    {"rstrip", strip_method<false, true>},
    {"split", split_method<false>},
    {"splitlines", split_lines_method},
    {"startswith", starts_or_ends<true>},
    {"strip", strip_method<true, true>},
    {"title", method_of<title>},
    {"upper", method_of<upper>},
    {"zfill", zfill_method},
    {"casefold", method_of<lower>},
}};

}  // namespace

Method find_text_method(std::string_view name) {
  const auto found = std::ranges::find(methods, name, &NamedTextMethod::name);
  return found == methods.end() ? nullptr : found->method;
}

}  // namespace rocmforge::jinja
