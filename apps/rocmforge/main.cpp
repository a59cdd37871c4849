#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "base/log.h"
#include "command.h"

namespace rocmforge {
namespace {

constexpr int exit_failure = 1;
constexpr int exit_usage = 2;

int fail(int code, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::fflush(stdout);
  fmt::print(stderr, "rocmforge: {}\n", message);
  return code;
}

/// What is wrong with the command line, and where to read on.
std::string describe(const CLI::ParseError& error, const CLI::App& program, const std::vector<std::string>& arguments) {
  const auto commands = program.get_subcommands();
  if (commands.empty()) {
    std::string known;
    for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; })) {
      known += (known.empty() ? "" : ", ") + command->get_name();
    }
    const auto word =
        std::find_if(arguments.begin(), arguments.end(), [](const auto& text) { return !text.starts_with('-'); });
    if (word != arguments.end()) {
      return fmt::format("there is no command '{}'; the commands are {}", *word, known);
    }
    if (arguments.empty()) {
      return fmt::format("a command is missing: {} (rocmforge --help says more)", known);
    }
  }
  std::string message = error.what();
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr && message.starts_with("Could not convert: ")) {
    message = "not a valid value: " + message.substr(std::string("Could not convert: ").size());
  } else if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    message = "unknown option or one argument too many: " + message.substr(message.find(": ") + 2);
  }
  return fmt::format("{} (see rocmforge {}--help)", message, commands.empty() ? "" : commands.front()->get_name() + " ");
}

int run(std::vector<std::string> arguments) {
  CLI::App program("Runs language models from GGUF files. Without MODEL the demo model answers.", "rocmforge");
  program.set_version_flag("--version", "rocmforge " ROCMFORGE_VERSION);
  program.require_subcommand(1);
  program.footer(
      "Examples:\n  rocmforge run -p \"What is 127 + 458?\"\n  rocmforge chat model.gguf\n  rocmforge run --help");
  Action action;
  for (auto* add : {add_run, add_chat, add_inspect, add_models, add_tokenize, add_perplexity, add_bench, add_devices}) {
    add(program, action);
  }
  std::replace(arguments.begin(), arguments.end(), std::string("-pg"), std::string("--pg"));  // as llama-bench spells it
  try {
    program.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& help) {
    return program.exit(help);
  } catch (const CLI::ParseError& error) {
    return fail(exit_usage, describe(error, program, arguments));
  }
  const int code = action();
  return std::fflush(stdout) == 0 ? code : fail(exit_failure, "standard output can't be written");
}

}  // namespace
}  // namespace rocmforge

int main(int argc, char** argv) {
  using namespace rocmforge;
  std::signal(SIGPIPE, SIG_DFL);  // a reader that has left (`| head`) ends the program without a word
  std::setlocale(LC_CTYPE, "");
  spdlog::set_default_logger(spdlog::stderr_logger_mt("rocmforge"));
  spdlog::set_pattern("rocmforge: %v");
  try {
    return run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const UsageError& error) {
    return fail(exit_usage, error.what());
  } catch (const Error& error) {
    return fail(exit_failure, error.what());
  } catch (const std::bad_alloc&) {
    return fail(exit_failure, "not enough memory");
  } catch (const std::exception& error) {
    return fail(exit_failure, fmt::format("internal error: {}", error.what()));
  }
}
