#include "help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/json.h"
#include "option_value.h"
#include "suggest.h"
#include "terminal/terminal.h"
#include "terminal/text.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

constexpr std::size_t left_column = 32;

/// One line of two columns; the right one is wrapped.
std::string entry(const std::string& left, const std::string& right, std::size_t width) {
  std::string line = "  " + left;
  if (column_width(line) + 2 > left_column) {
    line += '\n';
    line.append(left_column, ' ');
  } else {
    line.append(left_column - column_width(line), ' ');
  }
  return line + wrapped(right, std::max(width, left_column + 20), left_column) + "\n";
}

std::string explain(const Option& option) {
  std::string text = option.meaning;
  const std::string values = describe_values(option);
  const std::string preset = default_text(option);
  std::string more = values;
  if (!preset.empty()) {
    more += fmt::format("{}without it {}", more.empty() ? "" : "; ", preset);
  }
  if (!option.environment.empty()) {
    more += fmt::format("{}${}", more.empty() ? "" : "; ", option.environment);
  }
  return more.empty() ? text : fmt::format("{} [{}]", text, more);
}

std::string option_names(const Option& option) {
  std::string text = option.names;
  for (std::size_t comma = 0; (comma = text.find(',', comma)) != std::string::npos; comma += 2) {
    text.insert(comma + 1, " ");
  }
  const std::string value = value_name(option);
  return value.empty() || option.is_argument() ? text : text + " " + value;
}

std::string usage(const Command& command, const std::string& full_name) {
  std::string line = full_name;
  for (const Option& option : command.options) {
    const std::string name = option.names + (std::holds_alternative<std::vector<std::string>*>(option.target) ? "..." : "");
    line += option.is_argument() ? (option.required ? " " + name : fmt::format(" [{}]", name)) : "";
  }
  const bool has_options = std::ranges::any_of(command.options, [](const Option& o) { return !o.is_argument(); });
  line += has_options ? " [OPTIONS]" : "";
  if (!command.commands.empty()) {
    line += command.action ? fmt::format("\n       {} COMMAND ...", full_name) : " COMMAND ...";
  }
  return line;
}

/// The headings in the order of the options; first "" for options without a heading.
std::vector<std::string> groups_of(const Command& command) {
  std::vector<std::string> groups = {""};
  for (const Option& option : command.options) {
    if (std::ranges::find(groups, option.group) == groups.end()) {
      groups.push_back(option.group);
    }
  }
  return groups;
}

nlohmann::ordered_json option_json(const Option& option) {
  nlohmann::ordered_json out;
  if (option.is_argument()) {
    out["name"] = option.names;
  } else {
    std::vector<std::string> names = option.all_names();
    if (!option.also.empty()) {
      names.push_back(option.also);
    }
    out["names"] = names;
    const ValueKind kind = value_kind(option);
    out["type"] = kind == ValueKind::flag      ? "flag"
                  : kind == ValueKind::integer ? "integer"
                  : kind == ValueKind::number  ? "number"
                                               : "text";
    out["repeats"] = kind == ValueKind::texts;
    if (kind != ValueKind::flag) {
      out["value"] = value_name(option);
    }
  }
  out["meaning"] = option.meaning;
  if (!option.group.empty()) {
    out["group"] = option.group;
  }
  if (const std::string preset = default_text(option); !preset.empty()) {
    out["default"] = preset;
  }
  if (std::isfinite(option.range.least)) {
    out["least"] = option.range.least;
  }
  if (std::isfinite(option.range.most)) {
    out["most"] = option.range.most;
  }
  if (!option.choices.empty()) {
    out["choices"] = option.choices;
  }
  if (!option.environment.empty()) {
    out["environment"] = option.environment;
  }
  if (option.required) {
    out["required"] = true;
  }
  return out;
}

struct HelpFlags {
  std::optional<std::string> command, below;
  bool json = false;
};

/// The command of that name; throws UsageError when there is none.
const Command& find_below(const Command& command, const std::string& name) {
  std::vector<std::string> names;
  for (const Command& below : command.commands) {
    if (below.name == name) {
      return below;
    }
    names.push_back(below.name);
  }
  const std::string near = nearest(name, names);
  throw UsageError(fmt::format("{} has no command '{}'{}", command.name, name,
                               near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

int help(const Command& program, const HelpFlags& flags) {
  const Command* command = &program;
  std::string full_name = program.name;
  for (const auto& name : {flags.command, flags.below}) {
    if (name) {
      command = &find_below(*command, *name);
      full_name += " " + *name;
    }
  }
  if (flags.json) {
    nlohmann::ordered_json out = help_json(*command);
    if (command == &program) {
      out["version"] = ROCMFORGE_VERSION;
    }
    print_json(out);
  } else {
    fmt::print("{}", help_text(*command, full_name, terminal_width(stdout, 120)));
  }
  return 0;
}

}  // namespace

std::string help_text(const Command& command, const std::string& full_name, std::size_t width) {
  std::string text = fmt::format("{}\n\nUsage: {}\n", wrapped(command.summary, width, 0), usage(command, full_name));
  if (!command.commands.empty()) {
    text += "\nCommands:\n";
    for (const Command& below : command.commands) {
      text += entry(below.name, below.summary, width);
    }
  }
  if (std::ranges::any_of(command.options, &Option::is_argument)) {
    text += "\nArguments:\n";
    for (const Option& option : command.options) {
      text += option.is_argument() ? entry(option.names, explain(option), width) : "";
    }
  }
  for (const std::string& group : groups_of(command)) {
    text += fmt::format("\n{}:\n", group.empty() ? "Options" : group);
    for (const Option& option : command.options) {
      text += !option.is_argument() && option.group == group ? entry(option_names(option), explain(option), width) : "";
    }
    text += group.empty() ? entry("-h, --help", "This text", width) : "";
  }
  text += command.notes.empty() ? "" : fmt::format("\n{}\n", wrapped(command.notes, width, 0));
  text += command.examples.empty() ? "" : "\nExamples:\n";
  for (const std::string& example : command.examples) {
    text += fmt::format("  {}\n", example);
  }
  return text;
}

nlohmann::ordered_json help_json(const Command& command) {
  nlohmann::ordered_json out = {{"name", command.name}, {"summary", command.summary}};
  auto arguments = nlohmann::ordered_json::array();
  auto options = nlohmann::ordered_json::array();
  for (const Option& option : command.options) {
    (option.is_argument() ? arguments : options).push_back(option_json(option));
  }
  options.push_back({{"names", {"-h", "--help"}}, {"type", "flag"}, {"repeats", false}, {"meaning", "Print this text"}});
  if (!command.notes.empty()) {
    out["notes"] = command.notes;
  }
  out["examples"] = command.examples;
  out["arguments"] = std::move(arguments);
  out["options"] = std::move(options);
  auto commands = nlohmann::ordered_json::array();
  for (const Command& below : command.commands) {  // two levels: commands, and those below bench
    commands.push_back(help_json(below));
  }
  out["commands"] = std::move(commands);
  return out;
}

Command help_command(const Command& program) {
  auto flags = std::make_shared<HelpFlags>();
  return {.name = "help",
          .summary = "Explain the program or a command",
          .examples = {"rocmforge help", "rocmforge help run", "rocmforge help bench attention", "rocmforge help --json"},
          .options = {{"COMMAND", &flags->command, "Command; without it the whole program"},
                      {"BELOW", &flags->below, "Command below it"},
                      {"--json", &flags->json, "All commands and options as JSON"}},
          .action = [&program, flags] { return help(program, *flags); }};
}

Command version_command() {
  auto json = std::make_shared<bool>(false);
  return {.name = "version",
          .summary = "Print the version",
          .examples = {"rocmforge version", "rocmforge version --json"},
          .options = {{"--json", json.get(), "JSON"}},
          .action = [json] {
            if (*json) {
              print_json({{"name", "rocmforge"}, {"version", ROCMFORGE_VERSION}});
            } else {
              fmt::print("rocmforge {}\n", ROCMFORGE_VERSION);
            }
            return 0;
          }};
}

}  // namespace rocmforge::app
