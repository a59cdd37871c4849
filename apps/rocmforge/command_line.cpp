#include "command_line.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>

#include "help.h"
#include "option_value.h"
#include "suggest.h"
#include "terminal.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

/// A command and the CLI11 objects made from it.
struct Parsed {
  const Command* command = nullptr;
  CLI::App* app = nullptr;
  std::vector<CLI::Option*> options;  ///< in the order of Command::options
};

/// Whether `text` is an option whose value follows as the next argument.
bool awaits_value(const Command& command, const std::string& text) {
  return std::ranges::any_of(command.options, [&](const Option& option) {
    const std::vector<std::string> names = option.all_names();
    return !option.is_flag() && !option.is_argument() &&
           (std::ranges::find(names, text) != names.end() || option.also == text);
  });
}

class CommandLine {
 public:
  explicit CommandLine(const Command& program) : app_(program.summary, program.name) {
    app_.set_version_flag("--version", "");
    add(program, app_);
    app_.require_subcommand(1);
  }

  std::function<int()> read(std::vector<std::string> arguments) {
    arguments = respelled(arguments);
    try {
      app_.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::CallForHelp&) {
      const auto asked = [](const std::string& text) { return text == "-h" || text == "--help"; };
      if (std::ranges::none_of(arguments, asked)) {  // CLI11 reads -hx as -h -x
        throw UsageError(unknown_option(
            *chosen().command, full_name(),
            *std::ranges::find_if(arguments, [](const std::string& text) { return text.starts_with("-h"); })));
      }
      return [command = chosen().command, name = full_name()] {
        fmt::print("{}", help_text(*command, name, terminal_width(stdout, 120)));
        return 0;
      };
    } catch (const CLI::CallForVersion&) {
      const Command& program = *parsed_.front().command;
      return std::ranges::find(program.commands, "version", &Command::name)->action;
    } catch (const CLI::ParseError& error) {
      throw UsageError(describe(error, arguments));
    }
    const Parsed& parsed = chosen();
    for (std::size_t i = 0; i < parsed.options.size(); ++i) {
      if (parsed.options[i]->count() > 0) {
        assign(parsed.command->options[i], parsed.options[i]->results());
      }
    }
    return parsed.command->action;
  }

 private:
  void add(const Command& command, CLI::App& app) {
    Parsed parsed = {&command, &app, {}};
    std::map<std::string, CLI::Option*> by_name;
    for (const Option& option : command.options) {
      CLI::Option* added = option.is_flag() ? app.add_flag(option.names) : app.add_option(option.names);
      added->multi_option_policy(std::holds_alternative<std::vector<std::string>*>(option.target)
                                     ? CLI::MultiOptionPolicy::TakeAll
                                     : CLI::MultiOptionPolicy::TakeLast);
      if (!option.is_flag()) {
        added->type_name(value_name(option));
      }
      if (!option.environment.empty()) {
        added->envname(option.environment);
      }
      added->required(option.required);
      parsed.options.push_back(added);
      for (const std::string& name : option.all_names()) {
        by_name[name] = added;
      }
    }
    for (std::size_t i = 0; i < command.options.size(); ++i) {
      for (const std::string& other : command.options[i].excludes) {
        parsed.options[i]->excludes(by_name.at(other));
      }
    }
    parsed_.push_back(std::move(parsed));
    for (const Command& below : command.commands) {  // two levels
      add(below, *app.add_subcommand(below.name, below.summary));
    }
  }

  /// The arguments with spellings of one dash (Option::also) replaced by main names, which CLI11 can read. Throws UsageError
  /// for options of other programs.
  [[nodiscard]] std::vector<std::string> respelled(std::vector<std::string> arguments) const {
    const Command* command = parsed_.front().command;
    bool is_value = false;
    for (std::string& text : arguments) {
      if (is_value) {
        is_value = false;
        continue;
      }
      if (text == "--") {
        break;
      }
      const auto below = std::ranges::find(command->commands, text, &Command::name);
      if (below != command->commands.end()) {
        command = &*below;
        continue;
      }
      const bool known = std::ranges::any_of(command->options, [&](const Option& option) {
        const std::vector<std::string> names = option.all_names();
        return option.also == text || std::ranges::find(names, text.substr(0, text.find('='))) != names.end();
      });
      if (const std::string advice = instead_of(text); !known && !advice.empty()) {
        throw UsageError(fmt::format("there is no option {} here: {}", text, advice));
      }
      is_value = awaits_value(*command, text);
      for (const Option& option : command->options) {
        if (option.also == text) {
          text = option.main_name();
        }
      }
    }
    return arguments;
  }

  /// The innermost command that was given; the program itself when there was none.
  [[nodiscard]] const Parsed& chosen() const {
    const CLI::App* app = &app_;
    while (!app->get_subcommands().empty()) {
      app = app->get_subcommands().front();
    }
    return *std::ranges::find(parsed_, app, &Parsed::app);
  }

  [[nodiscard]] std::string full_name() const {
    const CLI::App* app = &app_;
    std::string name = app->get_name();
    while (!app->get_subcommands().empty()) {
      app = app->get_subcommands().front();
      name += " " + app->get_name();
    }
    return name;
  }

  /// The message for arguments without a known command.
  [[nodiscard]] std::string describe_missing_command(const std::vector<std::string>& arguments) const {
    std::vector<std::string> names;
    std::string list;
    for (const Command& command : parsed_.front().command->commands) {
      names.push_back(command.name);
      list += (list.empty() ? "" : ", ") + command.name;
    }
    if (arguments.empty()) {
      return fmt::format("a command is missing: {} (rocmforge --help says more)", list);
    }
    const std::string& word = arguments.front();  // not a later one, which may be the value of an option
    if (word.starts_with('-')) {
      return fmt::format("there is no option {} before the command (see rocmforge --help)", word);
    }
    const std::string near = nearest(word, names);
    return near.empty() ? fmt::format("there is no command '{}'; the commands are {}", word, list)
                        : fmt::format("there is no command '{}'; did you mean {}? (see rocmforge --help)", word, near);
  }

  [[nodiscard]] std::string describe(const CLI::ParseError& error, const std::vector<std::string>& arguments) const {
    if (app_.get_subcommands().empty()) {
      return describe_missing_command(arguments);
    }
    // An unknown option is reported before a missing one, because it may be a misspelling of that.
    const std::vector<std::string> extra = chosen().app->remaining();
    const auto option = std::ranges::find_if(extra, [](const std::string& text) { return text.starts_with('-'); });
    if (option != extra.end() && option->size() > 1) {
      return unknown_option(*chosen().command, full_name(), *option);
    }
    if (!extra.empty()) {
      return fmt::format("one argument too many: {} (see {} --help)", extra.front(), full_name());
    }
    return fmt::format("{} (see {} --help)", error.what(), full_name());
  }

  CLI::App app_;
  std::vector<Parsed> parsed_;
};

}  // namespace

std::function<int()> read_command_line(const Command& program, std::vector<std::string> arguments) {
  return CommandLine(program).read(std::move(arguments));
}

}  // namespace rocmforge::app
