#include "foreign_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>

#include "base/log.h"
#include "comma_list.h"
#include "option_value.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

bool is_one_of(const std::string& text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}
bool says_on(const std::string& text) { return is_one_of(text, {"on", "auto", "true", "1", "enabled", "yes", "deepseek"}); }
bool says_off(const std::string& text) { return is_one_of(text, {"off", "false", "0", "disabled", "no", "none"}); }

/// Ollama's address: [http://]HOST[:PORT], HOST may be missing.
std::pair<std::string, std::string> host_and_port(std::string text) {
  text = text.substr(text.starts_with("http://") ? 7 : text.starts_with("https://") ? 8 : 0);
  text = text.substr(0, text.find('/'));
  const std::size_t bracket = text.find(']');
  const std::size_t colon = text.find(':', bracket == std::string::npos ? 0 : bracket);
  std::string host = text.substr(0, colon);
  if (bracket != std::string::npos && host.starts_with('[')) {
    host = host.substr(1, bracket - 1);
  }
  return {host.empty() ? "127.0.0.1" : host, colon == std::string::npos ? "11434" : text.substr(colon + 1)};
}

}  // namespace

const Option* find_option(const Command& command, const std::string& name) {
  const auto found = std::ranges::find_if(command.options, [&](const Option& option) {
    const std::vector<std::string> names = option.all_names();
    return (!name.empty() && option.also == name) || std::ranges::find(names, name) != names.end();
  });
  return found == command.options.end() ? nullptr : &*found;
}

std::size_t ForeignArguments::take(const Command& command, const ForeignOption& option,
                                   const std::vector<std::string>& arguments, std::size_t place,
                                   std::vector<std::string>& translated) {
  using Kind = ForeignOption::Kind;
  const std::string& text = arguments[place++];
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string name = text.substr(0, equals);
  const auto value = [&]() -> std::optional<std::string> {
    if (equals < text.size()) {
      return text.substr(equals + 1);
    }
    return place < arguments.size() ? std::optional(arguments[place]) : std::nullopt;
  };
  const auto refuse = [&] { throw UsageError(fmt::format("there is no option {} here: {}", name, option.text)); };
  const auto pass_value = [&] { place += equals < text.size() ? 0 : 1; };
  if (option.kind == Kind::same) {
    const std::string target(option.text);
    const Option* own = find_option(command, target);
    if (own == nullptr) {
      throw UsageError(
          fmt::format("there is no option {} here: it is {}, which {} does not have", name, target, command.name));
    }
    if (own->is_flag()) {
      translated.push_back(target);
      return place;
    }
    const std::optional<std::string> given = value();
    if (!given) {
      throw UsageError(fmt::format("{} needs a value", name));
    }
    pass_value();
    const bool is_list = std::holds_alternative<std::vector<std::string>*>(own->target);
    if (const auto [known, is_new] = values_.emplace(target, *given); !is_new && !is_list && known->second != *given) {
      throw UsageError(fmt::format("{} is {} and {}: {} has one value for both", target, known->second, *given, target));
    }
    for (const std::string& one : target == "--cors-origin" ? split_at_commas(*given) : std::vector<std::string>{*given}) {
      translated.push_back(target);
      translated.push_back(one);
    }
    return place;
  }
  if (option.kind == Kind::instead) {
    refuse();
  }
  if (option.kind == Kind::on && value() && (says_on(*value()) || says_off(*value()))) {
    if (says_off(*value())) {
      refuse();
    }
    pass_value();
  }
  log_warning("{} is not needed: {}", name, option.text);
  return place;
}

std::vector<std::pair<std::string, std::vector<std::string>>> options_of(const ForeignVariable& variable,
                                                                         const Command& command) {
  const std::string target(variable.option->text);
  if (variable.option->kind != ForeignOption::Kind::same) {
    return {};
  }
  if (variable.name == "OLLAMA_HOST") {
    const auto [host, port] = host_and_port(variable.value);
    return {{"--host", {host}}, {"--port", {port}}};
  }
  const Option* own = find_option(command, target);
  if (own != nullptr && own->is_flag() && !says_on(variable.value)) {
    return {};
  }
  return {{target, target == "--cors-origin" ? split_at_commas(variable.value) : std::vector<std::string>{variable.value}}};
}

bool is_bundle(const Command& command, const std::string& word) {
  const auto letter_option = [&](char letter) { return find_option(command, std::string{'-', letter}); };
  const Option* first = letter_option(word[1]);
  if (first == nullptr) {
    return false;
  }
  const std::string rest = word.substr(2);
  if (first->is_flag()) {
    return std::ranges::all_of(rest, [&](char letter) {
      const Option* option = letter_option(letter);
      return option != nullptr && option->is_flag();
    });
  }
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '-'; };
  const ValueKind kind = value_kind(*first);
  return kind == ValueKind::integer || kind == ValueKind::number ? !is_letter(rest[0]) || rest[0] == '-'
                                                                 : !std::ranges::all_of(rest, is_letter);
}

}  // namespace rocmforge::app
