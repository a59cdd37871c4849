#include "named_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "option_value.h"
#include "suggest.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

bool is_called(const Option& option, const std::string& name) {
  const std::vector<std::string> names = option.all_names();
  return std::ranges::any_of(
      names, [&](const std::string& one) { return one.starts_with('-') && one.substr(one.find_first_not_of('-')) == name; });
}

std::size_t find_option(const Command& command, std::string name) {
  std::ranges::replace(name, '_', '-');
  const auto found = std::ranges::find_if(command.options, [&](const Option& option) { return is_called(option, name); });
  if (found == command.options.end()) {
    throw UsageError(unknown_option(command, command.name, "--" + name));
  }
  return static_cast<std::size_t>(found - command.options.begin());
}

void check_flag(const Option& option, const std::vector<std::string>& values) {
  const std::string& value = values.back();
  if (option.is_flag() && value != "true" && value != "false") {
    throw UsageError(fmt::format("{} is {}, must be true or false", option.main_name(), value.empty() ? "empty" : value));
  }
}

void reset(const Option& option) {
  std::visit(
      [](auto* target) {
        using Value = std::remove_pointer_t<decltype(target)>;
        if constexpr (!std::is_arithmetic_v<Value> || std::is_same_v<Value, bool>) {
          *target = Value{};
        }
      },
      option.target);
}

bool excludes(const Option& one, const Option& other) {
  const std::vector<std::string> names = other.all_names();
  return std::ranges::any_of(one.excludes,
                             [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); });
}

}  // namespace

void read_named_options(Command& command, std::span<const std::string> texts, bool environment) {
  std::map<std::size_t, std::vector<std::string>> given;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    const std::size_t index = find_option(command, text.substr(0, equals));
    const Option& option = command.options[index];
    if (equals == std::string::npos && !option.is_flag()) {
      throw UsageError(fmt::format("{} needs a value", option.main_name()));
    }
    given[index].push_back(equals == std::string::npos ? "true" : text.substr(equals + 1));
    check_flag(option, given[index]);
  }
  const auto is_off = [&](std::size_t index) { return command.options[index].is_flag() && given[index].back() == "false"; };
  for (std::size_t i = 0; i < command.options.size(); ++i) {
    for (std::size_t k = 0; k < command.options.size(); ++k) {
      const Option &one = command.options[i], &other = command.options[k];
      if (!given.contains(i) || is_off(i) || (!excludes(one, other) && !excludes(other, one))) {
        continue;
      }
      if (given.contains(k) && !is_off(k)) {
        throw UsageError(fmt::format("{} excludes {} (see {} --help)", one.main_name(), other.main_name(), command.name));
      }
      reset(other);
    }
  }
  for (std::size_t i = 0; i < command.options.size(); ++i) {
    const Option& option = command.options[i];
    if (const auto found = given.find(i); found != given.end()) {
      assign(option, found->second);
    } else if (const char* value =
                   environment && !option.environment.empty() ? std::getenv(option.environment.c_str()) : nullptr;
               value != nullptr && *value != '\0') {
      assign(option, {value});
    }
  }
}

}  // namespace rocmforge::app
