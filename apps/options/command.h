#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace rocmforge::app {

/// The numbers that an option takes.
struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  std::string note{};               ///< added to the limits in help: "0: the model's"
  std::optional<double> special{};  ///< one more value, whose meaning is `special_note`: "no limit"
  std::string special_note{};
  bool whole = false;  ///< only whole numbers, though the target's type holds others
};

/// The variable that receives an option's value. A bool makes a flag without a value. A list takes the values of all
/// repetitions, other types the value of the last. An optional stays empty without the option.
using Target = std::variant<bool*, std::int32_t*, std::int64_t*, std::uint16_t*, std::uint64_t*, double*, std::string*,
                            std::optional<double>*, std::optional<std::string>*, std::vector<std::string>*>;

struct Option {
  std::string names;  ///< "-c,--context,--ctx-size"; without dashes: a positional argument
  Target target;      ///< its value before the command line is read is the default
  std::string meaning;
  std::string value{};  ///< the value's name in help; "": by the target's type
  std::string group{};  ///< heading in help
  Range range{};        ///< of numbers
  std::vector<std::string> choices{};
  std::string environment{};            ///< the environment variable that replaces an absent option
  std::vector<std::string> excludes{};  ///< options that can't be given together with it
  std::string also{};                   ///< another spelling with one dash: "-pg"
  bool required = false;

  [[nodiscard]] bool is_argument() const { return !names.starts_with('-'); }
  [[nodiscard]] bool is_flag() const { return std::holds_alternative<bool*>(target); }
  /// "-c", "--context", "--ctx-size"
  [[nodiscard]] std::vector<std::string> all_names() const;
  /// The first long name, which messages use: "--context".
  [[nodiscard]] std::string main_name() const;
};

struct Command {
  std::string name;
  std::string summary;
  std::string notes{};
  std::vector<std::string> examples{};  ///< whole command lines
  std::vector<Option> options{};        ///< arguments are in the order of their positions
  std::vector<Command> commands{};      ///< subcommands
  std::function<int()> action{};        ///< returns the exit code

  /// The first option or argument of that name; throws LogicError when there is none.
  Option& option(const std::string& name);
  /// Removes an option.
  void drop(const std::string& name);
};

}  // namespace rocmforge::app
