#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "chat/jinja/operations.h"
#include "chat/jinja/unicode.h"

namespace rocmforge::jinja {
namespace {

void append_escape(std::string& out, char32_t character) {
  constexpr char digits[] = "0123456789abcdef";
  const int count = character < 0x100 ? 2 : (character < 0x10000 ? 4 : 8);
  out += count == 2 ? "\\x" : (count == 4 ? "\\u" : "\\U");
  for (int shift = 4 * (count - 1); shift >= 0; shift -= 4) {
    out += digits[(character >> static_cast<unsigned>(shift)) & 0xFU];
  }
}

std::string in_quotes(std::string_view text) {
  const bool doubled = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = doubled ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t byte = 0; byte < text.size();) {
    const std::size_t size = character_bytes(text, byte);
    const std::string_view character = text.substr(byte, size);
    const char32_t code = character_at(text, byte);
    byte += size;
    if (code == U'\n' || code == U'\r' || code == U'\t') {
      out += code == U'\n' ? "\\n" : (code == U'\r' ? "\\r" : "\\t");
    } else if (character[0] == quote || character[0] == '\\') {
      out += '\\';
      out += character;
    } else if (code < 0x20 || code == 0x7F || (code >= 0x80 && !is_kind(CharacterKind::printable, character))) {
      append_escape(out, code);
    } else {
      out += character;
    }
  }
  return out + quote;
}

/// Builds the repr of nested values. The whole result counts as data of the caller, since texts in it may be.
class Representation {
 public:
  explicit Representation(Interpreter& run) : run_(run) {}

  void add(const Value& value) {
    const Interpreter::Nesting nesting(run_);
    run_.spend();
    run_.check_size(out_.size());
    if (const Text* text = value.text()) {
      run_.spend(text->size() / 4);
      out_ += text->is_markup() ? fmt::format("Markup({})", in_quotes(text->bytes())) : in_quotes(text->bytes());
    } else if (const Sequence* sequence = value.sequence()) {
      add_sequence(*sequence);
    } else if (const Mapping* mapping = value.mapping()) {
      add_mapping(*mapping);
    } else if (value.is_undefined()) {
      out_ += "Undefined";
    } else if (const auto* integer = dynamic_cast<const LongInteger*>(value.object())) {
      out_ += integer->digits();
    } else if (const Object* object = value.object()) {
      const auto* space = dynamic_cast<const Namespace*>(object);
      if (space == nullptr) {
        run_.fail(fmt::format("a {} has no text", object->type_name()));
      }
      out_ += "<Namespace ";
      add_mapping(space->values());
      out_ += ">";
    } else {
      out_ += to_text(run_, value).bytes();
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void add_items(const std::vector<Value>& items) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      out_ += i == 0 ? "" : ", ";
      add(items[i]);
    }
  }

  void add_sequence(const Sequence& sequence) {
    switch (sequence.kind) {
      case Sequence::Kind::list:
        out_ += "[";
        add_items(sequence.items);
        out_ += "]";
        break;
      case Sequence::Kind::tuple:
        out_ += "(";
        add_items(sequence.items);
        out_ += sequence.items.size() == 1 ? ",)" : ")";
        break;
      case Sequence::Kind::range:
        run_.fail("a range has no text; add |list");
      case Sequence::Kind::view:
        out_ += std::string(sequence.view_name) + "([";
        add_items(sequence.items);
        out_ += "])";
        break;
      case Sequence::Kind::generator:
        run_.fail("a generator has no text; add |list");
    }
  }

  void add_mapping(const Mapping& mapping) {
    out_ += "{";
    for (std::size_t i = 0; i < mapping.size(); ++i) {
      out_ += i == 0 ? "" : ", ";
      add(mapping.entries()[i].first);
      out_ += ": ";
      add(mapping.entries()[i].second);
    }
    out_ += "}";
  }

  Interpreter& run_;
  std::string out_;
};

}  // namespace

std::string format_integer(Integer value) {
  std::string digits;
  const bool negative = value < 0;
  do {
    const auto digit = static_cast<int>(value % 10);
    digits.insert(digits.begin(), static_cast<char>('0' + (digit < 0 ? -digit : digit)));
    value /= 10;
  } while (value != 0);
  if (negative) {
    digits.insert(digits.begin(), '-');
  }
  return digits;
}

std::string format_real(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value < 0 ? "-inf" : "inf";
  }
  std::array<char, 40> buffer{};
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  const std::string_view scientific(buffer.data(), static_cast<std::size_t>(written.ptr - buffer.data()));
  const std::size_t e = scientific.find('e');
  int exponent = 0;
  const std::string_view power = scientific.substr(e + (scientific[e + 1] == '+' ? 2 : 1));
  std::from_chars(power.data(), power.data() + power.size(), exponent);
  constexpr int first_scientific = 16;
  if (exponent < -4 || exponent >= first_scientific) {
    const std::string digits = std::to_string(std::abs(exponent));
    return std::string(scientific.substr(0, e)) + (exponent < 0 ? "e-" : "e+") + (digits.size() < 2 ? "0" : "") + digits;
  }
  const auto fixed = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  std::string text(buffer.data(), fixed.ptr);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

Text to_text(Interpreter& run, const Value& value) {
  if (const Text* text = value.text()) {
    return *text;
  }
  if (value.is_undefined()) {
    return {};
  }
  if (value.is_none()) {
    return {"None", true};
  }
  if (const bool* truth = value.boolean()) {
    return {*truth ? "True" : "False", true};
  }
  if (const Integer* integer = value.integer()) {
    return {format_integer(*integer), true};
  }
  if (const double* real = value.real()) {
    return {format_real(*real), true};
  }
  return represent(run, value);
}

Text represent(Interpreter& run, const Value& value) {
  if (value.number().has_value() || value.is_none()) {
    return to_text(run, value);
  }
  Representation representation(run);
  representation.add(value);
  return {representation.take(), false};
}

}  // namespace rocmforge::jinja
