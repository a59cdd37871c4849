#include "chat/jinja/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "chat/jinja/text_operations.h"

namespace rocmforge::jinja {
namespace {

constexpr std::size_t widest = 4096;

struct Directive {
  std::string flags;
  std::string name;  ///< the name of "%(name)s"
  bool named = false;
  std::size_t width = 0;
  int precision = -1;
  char kind = 's';
};

/// Reads the directive after a '%'. It starts at `byte`, which is moved to its end.
Directive read_directive(Interpreter& run, std::string_view format, std::size_t& byte) {
  Directive directive;
  const auto peek = [&] { return byte < format.size() ? format[byte] : '\0'; };
  const auto read_number = [&] {
    std::size_t number = 0;
    for (; std::isdigit(static_cast<unsigned char>(peek())) != 0; ++byte) {
      number = std::min(widest + 1, number * 10 + static_cast<std::size_t>(peek() - '0'));
    }
    if (number > widest) {
      run.fail("a format that is too wide");
    }
    return number;
  };
  if (peek() == '(') {
    const std::size_t close = format.find(')', byte);
    if (close == std::string_view::npos) {
      run.fail("a format's key does not end");
    }
    directive.name = format.substr(byte + 1, close - byte - 1);
    directive.named = true;
    byte = close + 1;
  }
  while (std::string_view("-+ 0#").find(peek()) != std::string_view::npos && peek() != '\0') {
    directive.flags += format[byte++];
  }
  directive.width = read_number();
  if (peek() == '.') {
    ++byte;
    directive.precision = static_cast<int>(read_number());
  }
  directive.kind = peek();
  ++byte;
  return directive;
}

std::string format_number(Interpreter& run, const Directive& directive, const Value& value) {
  if (!value.number().has_value()) {
    run.fail(fmt::format("%{} needs a number, not {}", directive.kind, value.type_name()));
  }
  const bool whole = std::string_view("dixXo").find(directive.kind) != std::string_view::npos;
  std::array<char, 512 + widest> buffer{};
  int size = 0;
  if (!whole) {
    const std::string pattern = std::string("%") + directive.flags + "*.*" + directive.kind;
    size = std::snprintf(buffer.data(), buffer.size(), pattern.c_str(), static_cast<int>(directive.width),
                         directive.precision < 0 ? 6 : directive.precision, *value.number());
  } else {
    const double number = *value.number();
    const auto integer = value.whole();
    if (std::abs(number) >= 9e18) {
      run.fail("an integer that is too large to format");
    }
    const long long held = integer.has_value() ? static_cast<long long>(*integer) : static_cast<long long>(number);
    const char kind = directive.kind == 'i' ? 'd' : directive.kind;
    if (held < 0 && kind != 'd') {
      run.fail("a negative number can't be formatted in this base");
    }
    const std::string pattern = std::string("%") + directive.flags + "*.*ll" + kind;
    size = std::snprintf(buffer.data(), buffer.size(), pattern.c_str(), static_cast<int>(directive.width),
                         directive.precision < 0 ? 1 : directive.precision, held);
  }
  if (size < 0 || static_cast<std::size_t>(size) >= buffer.size()) {
    run.fail("a number that is too long to format");
  }
  return {buffer.data(), static_cast<std::size_t>(size)};
}

/// Appends `value` as `directive` says. `format` is the whole format: the text of the value is escaped if that is markup.
void append_directive(Interpreter& run, Text& out, const Directive& directive, const Value& value, const Text& format) {
  const std::string_view numbers = "dixXofFeEgG";
  if (numbers.find(directive.kind) != std::string_view::npos) {
    out.append(format_number(run, directive, value), true);
    return;
  }
  if (directive.kind != 's' && directive.kind != 'r') {
    run.fail(fmt::format("the format does not support '%{}'", directive.kind));
  }
  Text text = fitting(directive.kind == 's' ? to_text(run, value) : represent(run, value), format);
  if (directive.precision >= 0) {
    text = text.part(0, byte_of_character(text.bytes(), static_cast<std::size_t>(directive.precision)));
  }
  append_padded(out, text, directive.width, directive.flags.find('-') != std::string::npos);
}

}  // namespace

void append_padded(Text& out, const Text& text, std::size_t width, bool left) {
  const std::size_t length = count_characters(text.bytes());
  const std::string spaces(width > length ? width - length : 0, ' ');
  if (!left) {
    out.append(spaces, true);
  }
  out.append(text);
  if (left) {
    out.append(spaces, true);
  }
}

Value format_percent(Interpreter& run, const Text& format, const Value& arguments) {
  const Sequence* tuple = arguments.sequence();
  const bool several = tuple != nullptr && tuple->kind == Sequence::Kind::tuple;
  std::size_t next = 0;
  const auto take = [&]() -> Value {
    const std::size_t count = several ? tuple->items.size() : 1;
    if (next >= count) {
      run.fail("not enough arguments for the format");
    }
    return several ? tuple->items[next++] : (++next, arguments);
  };
  Text out;
  out.mark(format.is_markup());
  const std::string& bytes = format.bytes();
  for (std::size_t byte = 0; byte < bytes.size();) {
    const std::size_t percent = std::min(bytes.find('%', byte), bytes.size());
    out.append(format, byte, percent - byte);
    byte = percent + 1;
    if (percent == bytes.size()) {
      break;
    }
    const Directive directive = read_directive(run, bytes, byte);
    if (directive.kind == '%') {
      out.append(format, percent, 1);
    } else if (directive.named) {
      append_directive(run, out, directive, element(run, arguments, run.literal(directive.name)), format);
      next = 1;
    } else {
      append_directive(run, out, directive, take(), format);
    }
    run.check_size(out.size());
  }
  if (next < (several ? tuple->items.size() : (arguments.mapping() != nullptr ? 0 : 1))) {
    run.fail("the format does not use all of its arguments");
  }
  return run.text(std::move(out));
}

Value format_braces(Interpreter& run, const Text& format, const Arguments& arguments) {
  Text out;
  out.mark(format.is_markup());
  std::size_t next = 0;
  const std::string& bytes = format.bytes();
  const auto field = [&](std::string_view name) -> Value {
    const bool by_index = std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    if (!by_index) {
      run.spend(arguments.named.size());
      const auto named = std::ranges::find(arguments.named, name, &std::pair<std::string, Value>::first);
      if (named == arguments.named.end()) {
        run.fail(fmt::format("the format's field '{}' is not given, or not a plain name", name));
      }
      return named->second;
    }
    const std::size_t index = name.empty() ? next++ : (name.size() > 4 ? widest : std::stoul(std::string(name)));
    if (index >= arguments.positional.size()) {
      run.fail("not enough arguments for the format");
    }
    return arguments.positional[index];
  };
  for (std::size_t byte = 0; byte < bytes.size();) {
    const std::size_t brace = std::min(bytes.find_first_of("{}", byte), bytes.size());
    out.append(format, byte, brace - byte);
    byte = brace + 1;
    if (brace == bytes.size()) {
      break;
    }
    if (byte < bytes.size() && bytes[byte] == bytes[brace]) {
      out.append(format, byte++, 1);
      continue;
    }
    const std::size_t close = bytes.find('}', byte);
    if (bytes[brace] == '}' || close == std::string::npos) {
      run.fail("a single brace in a format");
    }
    out.append(fitting(to_text(run, field(std::string_view(bytes).substr(byte, close - byte))), format));
    run.check_size(out.size());
    byte = close + 1;
  }
  return run.text(std::move(out));
}

}  // namespace rocmforge::jinja
