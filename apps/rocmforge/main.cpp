#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/log.h"
#include "command.h"
#include "parse_error.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

constexpr int exit_failure = 1;
constexpr int exit_usage = 2;

int fail(int code, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::fflush(stdout);
  fmt::print(stderr, "rocmforge: {}\n", message);
  return code;
}

int run(std::vector<std::string> arguments) {
  CLI::App program("Runs language models from GGUF files. Without MODEL the demo model answers.", "rocmforge");
  program.set_version_flag("--version", "rocmforge " ROCMFORGE_VERSION);
  program.require_subcommand(1);
  program.footer(
      "Examples:\n  rocmforge run -p \"What is 127 + 458?\"\n  rocmforge chat model.gguf\n  rocmforge run --help");
  Action action;
  for (auto* add : {add_run, add_chat, add_inspect, add_models, add_tokenize, add_perplexity, add_bench, add_devices,
                    add_serve, add_load}) {
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
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0 ? code
                                                              : fail(exit_failure, "standard output can't be written");
}

/// Runs the program; whatever goes wrong becomes one line and an exit code.
int guarded_run(std::vector<std::string> arguments) {
  try {
    return run(std::move(arguments));
  } catch (const UsageError& error) {
    return fail(exit_usage, error.what());
  } catch (const Error& error) {
    return fail(exit_failure, error.what());
  } catch (const std::bad_alloc&) {
    return fail(exit_failure, "not enough memory");
  } catch (const std::system_error& error) {  // no more threads, no more room for output
    return fail(exit_failure, error.what());
  } catch (const std::exception& error) {
    return fail(exit_failure, fmt::format("internal error: {}", error.what()));
  }
}

/// A mapped file that has become shorter, or a disk that fails: nothing can be read on, and no C++ function may be called.
void on_bus_error(int) {
  static constexpr std::string_view line =
      "rocmforge: a model's file was cut short or can't be read any more while it was in use\n";
  static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
  _exit(exit_failure);
}

}  // namespace
}  // namespace rocmforge::app

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // a reader that has left (`| head`) ends the program without a word
  std::signal(SIGBUS, rocmforge::app::on_bus_error);
  std::setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1) {
    std::setlocale(LC_CTYPE, "C.UTF-8");  // the models speak UTF-8 even where the terminal's settings say nothing
  }
  spdlog::set_default_logger(spdlog::stderr_logger_mt("rocmforge"));
  spdlog::set_pattern("rocmforge: %v");
  spdlog::set_level(spdlog::level::warn);
  return rocmforge::app::guarded_run(std::vector<std::string>(argv + 1, argv + argc));
}
