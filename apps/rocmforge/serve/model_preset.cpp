#include "serve/model_preset.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/blanks.h"
#include "base/printable.h"
#include "read_text.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 20;

class PresetReader {
 public:
  explicit PresetReader(ModelPreset& preset) : preset_(preset) {}

  void take(std::string_view text, int line) {
    text = trimmed(text);
    if (text.empty() || text.front() == ';' || text.front() == '#') {
      return;
    }
    text.front() == '[' ? begin_section(text, line) : take_value(text, line);
  }

 private:
  [[noreturn]] void fail(int line, const std::string& problem) const {
    throw UsageError(fmt::format("{}: {}", preset_.place(line), problem));
  }

  void begin_section(std::string_view text, int line) {
    const std::string_view name = trimmed(text.substr(1, text.size() - 2));
    if (text.back() != ']' || name.empty()) {
      fail(line, fmt::format("'{}' is no section like [NAME]", printable(text, 100)));
    }
    const auto has_name = [&](const PresetSection& other) { return other.name == name; };
    if (const auto found = std::ranges::find_if(preset_.models, has_name); found != preset_.models.end()) {
      fail(line, fmt::format("the section [{}] is in line {} already", printable(name, 100), found->line));
    }
    if (name == "*") {
      section_ = 0;
      return;
    }
    preset_.models.push_back({.name = std::string(name), .line = line});
    section_ = preset_.models.size();
  }

  void take_value(std::string_view text, int line) {
    const std::size_t equals = text.find('=');
    std::string_view key = trimmed(text.substr(0, equals));
    if (equals == std::string_view::npos || key.empty()) {
      fail(line, fmt::format("'{}' is no line like KEY = VALUE", printable(text, 100)));
    }
    PresetValue value = {std::string(key), std::string(trimmed(text.substr(equals + 1))), line};
    if (!section_) {
      if (key == "version" && value.value == "1") {  // of the file's form
        return;
      }
      fail(line, fmt::format("'{}' stands before the first section", printable(key, 100)));
    }
    PresetSection& section = *section_ == 0 ? preset_.common : preset_.models[*section_ - 1];
    section.values.push_back(std::move(value));
  }

  ModelPreset& preset_;
  std::optional<std::size_t> section_;  ///< 0: of all; else the index and one
};

}  // namespace

std::string ModelPreset::place(int line) const { return fmt::format("{}:{}", path, line); }

ModelPreset ModelPreset::read(const std::string& path) {
  ModelPreset preset = {.path = path, .common = {.name = "*"}};
  const std::string text = read_text(path);
  if (text.size() > most_bytes) {
    throw UsageError(fmt::format("{}: the file has {} bytes, at most {}", path, text.size(), most_bytes));
  }
  PresetReader reader(preset);
  std::string_view rest = text;
  for (int line = 1; !rest.empty(); ++line) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    reader.take(rest.substr(0, end), line);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (preset.models.empty()) {
    throw UsageError(fmt::format("{}: the file has no section of a model, like [NAME]", path));
  }
  return preset;
}

}  // namespace rocmforge::app
