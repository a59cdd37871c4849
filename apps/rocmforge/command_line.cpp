#include "command_line.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "base/log.h"
#include "foreign_arguments.h"
#include "help.h"
#include "option_value.h"
#include "suggest.h"
#include "terminal/terminal.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

/// A command and the CLI11 objects made from it.
struct Parsed {
  const Command* command = nullptr;
  CLI::App* app = nullptr;
  std::vector<CLI::Option*> options;  ///< in the order of Command::options

  /// Null for a name that no option has.
  [[nodiscard]] const CLI::Option* find(const std::string& name) const {
    const Option* option = find_option(*command, name);
    return option == nullptr ? nullptr : options[static_cast<std::size_t>(option - command->options.data())];
  }
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
    check_model_name(parsed);
    for (std::size_t i = 0; i < parsed.options.size(); ++i) {
      if (parsed.options[i]->count() > 0) {
        assign(parsed.command->options[i], parsed.options[i]->results());
      }
    }
    take_variables(parsed);
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
      if (option.is_argument() && std::holds_alternative<std::vector<std::string>*>(option.target)) {
        added->expected(CLI::detail::expected_max_vector_size);
      }
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

  /// The arguments with other spellings (Option::also, options of llama.cpp) replaced by main names, which CLI11 can read.
  /// Throws UsageError for options of other programs that have no meaning here.
  [[nodiscard]] std::vector<std::string> respelled(const std::vector<std::string>& arguments) const {
    const Command* command = parsed_.front().command;
    std::string full_name = command->name;
    std::vector<std::string> all;
    ForeignArguments foreign;
    for (std::size_t i = 0; i < arguments.size();) {
      const std::string& text = arguments[i];
      const auto below = std::ranges::find(command->commands, text, &Command::name);
      if (text == "--") {
        all.insert(all.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
        break;
      }
      if (below != command->commands.end()) {
        command = &*below;
        full_name += " " + command->name;
      }
      const std::string name = text.substr(0, text.find('='));
      const Option* known = find_option(*command, name);
      const bool is_option = text.size() > 1 && text[0] == '-' && command != parsed_.front().command;
      if (const ForeignOption* other = known == nullptr && is_option ? find_foreign_option(name) : nullptr) {
        i = foreign.take(*command, *other, arguments, i, all);
        continue;
      }
      if (known == nullptr && is_option && text.size() > 2 && text[1] != '-' && text[1] != 'h' &&
          !is_bundle(*command, text)) {
        throw UsageError(unknown_option(*command, full_name, text));
      }
      all.push_back(known != nullptr && known->also == name ? known->main_name() + text.substr(name.size()) : text);
      if (++i < arguments.size() && awaits_value(*command, text)) {
        all.push_back(arguments[i++]);
      }
    }
    return all;
  }

  /// Sets the options that are not given from variables of llama.cpp and Ollama. Of several that set one option the first
  /// counts.
  void take_variables(const Parsed& parsed) const {
    const Command& command = *parsed.command;
    constexpr std::array<std::string_view, 3> commands = {"run", "chat", "serve"};
    if (std::ranges::find(commands, command.name) == commands.end()) {
      return;
    }
    std::set<std::string> taken;
    const auto is_given = [&](const std::string& name) {
      const CLI::Option* option = parsed.find(name);
      return option != nullptr && (option->count() > 0 || taken.contains(find_option(command, name)->main_name()));
    };
    const auto excludes = [](const Option& one, const Option& other) {
      const std::vector<std::string> names = other.all_names();
      return std::ranges::find_first_of(one.excludes, names) != one.excludes.end();
    };
    const auto is_excluded = [&](const Option& option) {
      return std::ranges::any_of(command.options, [&](const Option& other) {
        return is_given(other.main_name()) && (excludes(other, option) || excludes(option, other));
      });
    };
    for (const ForeignVariable& variable : foreign_variables()) {
      if (variable.option->kind == ForeignOption::Kind::instead && command.name == "serve") {
        log_warning("{} has no effect: {}", variable.name, variable.option->text);
      }
      for (const auto& [name, values] : options_of(variable, command)) {
        const Option* option = find_option(command, name);
        const bool is_model = name == "--model" || name == "--hf-repo";
        if (option == nullptr || is_given(name) || is_excluded(*option) ||
            (is_model && (is_given("MODEL") || is_given("--model") || is_given("--hf-repo")))) {
          continue;
        }
        try {
          assign(*option, values);
        } catch (const UsageError& error) {
          throw UsageError(fmt::format("{}: {}", variable.name, error.what()));
        }
        taken.insert(option->main_name());
      }
    }
  }

  /// Throws UsageError where the name of the model is empty, which would mean the demo model.
  void check_model_name(const Parsed& parsed) const {
    const auto given = [&](const std::string& name) {
      const CLI::Option* option = parsed.find(name);
      return option != nullptr && option->count() > 0 ? option : nullptr;
    };
    for (const char* name : {"--model", "--hf-repo", "MODEL"}) {
      if (const CLI::Option* option = given(name)) {
        if (option->results().back().empty()) {
          throw UsageError(fmt::format("{} is empty (see {} --help)", name, full_name()));
        }
        return;  // with an option for the model, the first argument is a text
      }
    }
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
