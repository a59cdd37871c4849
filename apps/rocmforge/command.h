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
  std::string note{};               ///< said behind the limits: "0: the model's"
  std::optional<double> special{};  ///< one more value, whose meaning is `special_note`: "no limit"
  std::string special_note{};
  bool whole = false;  ///< whole numbers alone, where the target takes others
};

/// Where the value of an option goes. A bool makes a flag without a value. A list takes the values of all its repetitions,
/// everything else that of the last. An optional stays empty without the option.
using Target = std::variant<bool*, std::int32_t*, std::int64_t*, std::uint16_t*, std::uint64_t*, double*, std::string*,
                            std::optional<double>*, std::optional<std::string>*, std::vector<std::string>*>;

struct Option {
  std::string names;  ///< "-c,--context,--ctx-size"; without dashes an argument that is known by its place
  Target target;      ///< its value before the command line is read is the default
  std::string meaning;
  std::string value{};  ///< what help calls the value; "": by the target's type
  std::string group{};  ///< heading in help
  Range range{};        ///< of numbers
  std::vector<std::string> choices{};
  std::string environment{};            ///< the variable that is read in its absence
  std::vector<std::string> excludes{};  ///< options that can't stand beside it
  std::string also{};                   ///< another spelling with one dash: "-pg"
  bool required = false;

  [[nodiscard]] bool is_argument() const { return !names.starts_with('-'); }
  [[nodiscard]] bool is_flag() const { return std::holds_alternative<bool*>(target); }
  /// "-c", "--context", "--ctx-size"
  [[nodiscard]] std::vector<std::string> all_names() const;
  /// The first long name, as messages call it: "--context".
  [[nodiscard]] std::string main_name() const;
};

struct Command {
  std::string name;
  std::string summary;
  std::string notes{};
  std::vector<std::string> examples{};  ///< whole command lines
  std::vector<Option> options{};        ///< arguments stand in the order of their places
  std::vector<Command> commands{};      ///< below this one
  std::function<int()> action{};        ///< returns the exit code

  /// The first option or argument of that name; throws LogicError when there is none.
  Option& option(const std::string& name);
  /// Takes an option away that does not apply here.
  void drop(const std::string& name);
};

// One per file. The values of the options live in the action.
Command run_command();
Command chat_command();
Command inspect_command();
Command models_command();
Command pull_command();
Command tokenize_command();
Command perplexity_command();
Command bench_command();
Command devices_command();
Command serve_command();
Command load_command();
// These two speak of the whole program, which outlives them.
Command help_command(const Command& program);
Command version_command();

// Commands below `rocmforge bench`.
Command bench_attention_command();
Command bench_matmul_command();
Command bench_step_command();

}  // namespace rocmforge::app
