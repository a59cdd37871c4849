#include "chat/jinja/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/json_document.h"
#include "chat/jinja/operations.h"

namespace rocmforge::jinja {
namespace {

using nlohmann::ordered_json;

Value integer_of(std::string_view digits) {
  const bool negative = digits.starts_with('-');
  if (const auto value = read_integer(digits.substr(negative ? 1 : 0), 10)) {
    return Value::integer(negative ? -*value : *value);
  }
  return Value(ObjectPointer(std::make_shared<LongInteger>(std::string(digits))));
}

Value convert(const ordered_json& json, std::int32_t depth) {
  if (depth > deepest_json) {
    throw Error(fmt::format("JSON that is nested more than {} levels deep", deepest_json));
  }
  switch (json.type()) {
    case ordered_json::value_t::object: {
      Mapping mapping;
      for (const auto& [key, value] : json.items()) {
        mapping.set(Value::text(Text(key, false)), convert(value, depth + 1));
      }
      return Value(std::make_shared<const Mapping>(std::move(mapping)));
    }
    case ordered_json::value_t::array: {
      std::vector<Value> items;
      for (const auto& item : json) {
        items.push_back(convert(item, depth + 1));
      }
      return Value(std::make_shared<const Sequence>(Sequence::Kind::list, std::move(items)));
    }
    case ordered_json::value_t::string:
      return Value::text(Text(json.get_ref<const std::string&>(), false));
    case ordered_json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case ordered_json::value_t::number_integer:
      return Value::integer(json.get<std::int64_t>());
    case ordered_json::value_t::number_unsigned:
      return Value::integer(json.get<std::uint64_t>());
    case ordered_json::value_t::number_float:
      return Value::real(json.get<double>());
    case ordered_json::value_t::binary:
      return integer_of(long_integer(json).value());
    case ordered_json::value_t::null:
    case ordered_json::value_t::discarded:
      break;
  }
  return Value(None{});
}

class JsonWriter {
 public:
  JsonWriter(Interpreter& run, const JsonStyle& style) : run_(run), style_(style) {
    item_end_ = style.separators.has_value() ? style.separators->first : (style.indent.has_value() ? "," : ", ");
    key_end_ = style.separators.has_value() ? style.separators->second : ": ";
  }

  void add(const Value& value) {
    const Interpreter::Nesting nesting(run_);
    run_.spend(1 + (value.text() != nullptr ? value.text()->size() / 8 : 0));
    run_.check_size(out_.size());
    const Sequence* sequence = value.sequence();
    if (const Mapping* mapping = value.mapping()) {
      add_mapping(*mapping);
    } else if (sequence != nullptr && (sequence->kind == Sequence::Kind::list || sequence->kind == Sequence::Kind::tuple)) {
      add_all('[', ']', sequence->items.size(), [&](std::size_t i) { add(sequence->items[i]); });
    } else if (const Text* text = value.text()) {
      add_text(text->bytes());
    } else if (value.is_none() || value.number().has_value()) {
      out_ += scalar(value);
    } else if (const auto* integer = dynamic_cast<const LongInteger*>(value.object())) {
      out_ += integer->digits();
    } else {
      run_.fail(value.is_undefined() ? fmt::format("tojson: {}", value.reason())
                                     : fmt::format("tojson: {} can't be written as JSON", value.type_name()));
    }
  }

  std::string take() { return std::move(out_); }

 private:
  static std::string scalar(const Value& value) {
    if (value.is_none()) {
      return "null";
    }
    if (const bool* truth = value.boolean()) {
      return *truth ? "true" : "false";
    }
    if (const double* real = value.real()) {
      return std::isnan(*real) ? "NaN" : (std::isinf(*real) ? (*real < 0 ? "-Infinity" : "Infinity") : format_real(*real));
    }
    return format_integer(*value.integer());
  }

  template <class AddItem>
  void add_all(char open, char close, std::size_t count, const AddItem& add_item) {
    out_ += open;
    ++level_;
    for (std::size_t i = 0; i < count; ++i) {
      out_ += i == 0 ? "" : item_end_;
      new_line();
      add_item(i);
    }
    --level_;
    if (count > 0) {
      new_line();
    }
    out_ += close;
  }

  void new_line() {
    if (style_.indent.has_value()) {
      out_ += '\n';
      for (std::size_t i = 0; i < level_; ++i) {
        out_ += *style_.indent;
      }
    }
  }

  void add_mapping(const Mapping& mapping) {
    std::vector<const Mapping::Entry*> entries;
    for (const Mapping::Entry& entry : mapping.entries()) {
      entries.push_back(&entry);
    }
    if (style_.sort_keys) {
      std::ranges::stable_sort(
          entries, [&](const Mapping::Entry* a, const Mapping::Entry* b) { return less(run_, a->first, b->first); });
    }
    add_all('{', '}', entries.size(), [&](std::size_t i) {
      const Value& key = entries[i]->first;
      if (const Text* text = key.text()) {
        add_text(text->bytes());
      } else if (key.is_none() || key.number().has_value()) {
        add_text(scalar(key));
      } else {
        run_.fail(fmt::format("tojson: {} can't be a key in JSON", key.type_name()));
      }
      out_ += key_end_;
      add(entries[i]->second);
    });
  }

  void add_unit(unsigned unit) {
    constexpr char digits[] = "0123456789abcdef";
    out_ += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) {
      out_ += digits[(unit >> static_cast<unsigned>(shift)) & 0xFU];
    }
  }

  void add_text(std::string_view text) {
    constexpr std::string_view plain = "\"\\\n\r\t\b\f";
    constexpr std::string_view names = "\"\\nrtbf";
    out_ += '"';
    for (std::size_t byte = 0; byte < text.size();) {
      const std::size_t size = character_bytes(text, byte);
      const auto code = static_cast<unsigned>(character_at(text, byte));
      const std::size_t named = size == 1 ? plain.find(text[byte]) : std::string_view::npos;
      if (named != std::string_view::npos) {
        out_ += '\\';
        out_ += names[named];
      } else if (code < 0x20) {
        add_unit(code);
      } else if (code >= 0x10000 && style_.ensure_ascii) {
        add_unit(0xD800 + ((code - 0x10000) >> 10U));
        add_unit(0xDC00 + ((code - 0x10000) & 0x3FFU));
      } else if (code > 0x7F && style_.ensure_ascii) {
        add_unit(code);
      } else {
        out_ += text.substr(byte, size);
      }
      byte += size;
    }
    out_ += '"';
  }

  Interpreter& run_;
  const JsonStyle& style_;
  std::string item_end_, key_end_;
  std::size_t level_ = 0;
  std::string out_;
};

}  // namespace

Value from_json(const ordered_json& json) { return convert(json, 0); }

Text to_json(Interpreter& run, const Value& value, const JsonStyle& style) {
  JsonWriter writer(run, style);
  writer.add(value);
  return {writer.take(), false};
}

}  // namespace rocmforge::jinja
