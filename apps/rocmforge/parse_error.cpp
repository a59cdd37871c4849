#include "parse_error.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>

namespace rocmforge::app {

std::string describe(const CLI::ParseError& error, const CLI::App& program, const std::vector<std::string>& arguments) {
  const auto commands = program.get_subcommands();
  if (commands.empty()) {
    std::string known;
    for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; })) {
      known += known.empty() ? "" : ", ";
      known += command->get_name();
    }
    const auto word =
        std::find_if(arguments.begin(), arguments.end(), [](const auto& text) { return !text.starts_with('-'); });
    if (arguments.empty()) {
      return fmt::format("a command is missing: {} (rocmforge --help says more)", known);
    }
    return word != arguments.end()
               ? fmt::format("there is no command '{}'; the commands are {}", *word, known)
               : fmt::format("there is no option {} before the command (see rocmforge --help)", arguments.front());
  }
  std::string message = error.what();
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr && message.starts_with("Could not convert: ")) {
    message = "not a valid value: " + message.substr(std::string("Could not convert: ").size());
  } else if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    message = "unknown option or one argument too many: " + message.substr(message.find(": ") + 2);
  }
  return fmt::format("{} (see rocmforge {} --help)", message, commands.front()->get_name());
}

}  // namespace rocmforge::app
