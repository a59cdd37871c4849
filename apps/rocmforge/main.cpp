#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/printable.h"
#include "command_line.h"
#include "commands.h"
#include "commands/rank_job.h"
#include "commands/step_timeout.h"
#include "device/device.h"
#include "device/device_faults.h"
#include "engine/agreement.h"
#include "terminal/terminal.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

constexpr int exit_failure = 1;
constexpr int exit_usage = 2;

int fail(int code, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::fflush(stdout);
  fmt::print(stderr, "{} {}\n", styled(stderr, Style::red, "rocmforge:"), printable(message, longest_line));
  return code;
}

int run(std::vector<std::string> arguments) {
  Command program = {
      .name = "rocmforge",
      .summary = "Runs language models from GGUF files. Without MODEL the demo model answers.",
      .examples = {"rocmforge run -p \"What is 127 + 458?\"", "rocmforge chat model.gguf", "rocmforge run --help"}};
  program.commands = {run_command(),     chat_command(),     inspect_command(),    models_command(),
                      pull_command(),    tokenize_command(), perplexity_command(), bench_command(),
                      devices_command(), check_command(),    serve_command(),      load_command()};
  program.commands.push_back(help_command(program));
  program.commands.push_back(version_command());
  const std::function<int()> action = read_command_line(program, std::move(arguments));
  const int code = action();
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0 ? code
                                                              : fail(exit_failure, "standard output can't be written");
}

/// Runs the program. Every error becomes one line and an exit code.
int guarded_run(std::vector<std::string> arguments) {
  try {
    return run(std::move(arguments));
  } catch (const FollowedToEnd&) {
    return 0;
  } catch (const RankEnded&) {  // rank 0 says why
    return exit_failure;
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

/// Handles SIGBUS: a mapped file was truncated, or a disk failed. Only async-signal-safe functions may be called here.
void on_bus_error(int) {
  static constexpr std::string_view line =
      "rocmforge: a model's file was cut short or can't be read any more while it was in use\n";
  static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
  _exit(exit_failure);
}

/// ROCm's own variables, the first two of which builds honour, too.
void read_rocm_environment() {
  const auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text != nullptr ? text : "");
  };
  RocmSurroundings surroundings;
  for (const char* name : {"ROCM_PATH", "HIP_PATH"}) {
    if (const std::string folder = value(name); !folder.empty()) {
      surroundings.folders.emplace_back(folder);
    }
  }
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const std::string folder = value(name); !folder.empty()) {
      surroundings.python_prefixes.emplace_back(folder);
    }
  }
  if (const std::string home = value("HOME"); !home.empty()) {
    surroundings.python_prefixes.push_back(std::filesystem::path(home) / ".local");
  }
  for (const char* name : {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
                           "HSA_OVERRIDE_GFX_VERSION"}) {
    if (const std::string text = value(name); !text.empty()) {
      surroundings.settings.push_back(fmt::format("{}={}", name, text));
    }
  }
  set_rocm_surroundings(std::move(surroundings));
}

}  // namespace
}  // namespace rocmforge::app

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // if the reader of a pipe ends (`| head`), the program ends silently
  std::signal(SIGBUS, rocmforge::app::on_bus_error);
  std::setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1) {
    std::setlocale(LC_CTYPE, "C.UTF-8");  // models write UTF-8, also if no locale is set
  }
  spdlog::set_default_logger(spdlog::stderr_logger_mt("rocmforge"));
  spdlog::set_pattern("rocmforge: %v");
  spdlog::set_level(spdlog::level::warn);
  rocmforge::app::read_rocm_environment();
  rocmforge::on_device_fault(rocmforge::app::end_after_fault);
  return rocmforge::app::guarded_run(std::vector<std::string>(argv + 1, argv + argc));
}
