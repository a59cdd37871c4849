#include "device/hip_runtimes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "device/amd_system.h"
#include "device/hip_api.h"
#include "device/kernel_library.h"
#include "device/runtime_library.h"

namespace rocmforge {
namespace {

std::optional<RuntimeLibrary> open(const std::string& name) {
  try {
    const char* text = name.c_str();
    return RuntimeLibrary(std::span(&text, 1));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string real_path(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path found = std::filesystem::weakly_canonical(path, ignored);
  return found.empty() ? path : found.string();
}

RocmSurroundings& surroundings() {
  static RocmSurroundings said;
  return said;
}

std::optional<HipChoice>& kept_choice() {
  static std::optional<HipChoice> choice;
  return choice;
}

/// Of this process's environment. This program or library may lie in a Python environment, too.
std::vector<std::string> runtime_names() {
  std::vector<std::filesystem::path> prefixes = surroundings().python_prefixes;
  std::filesystem::path folder = own_file().parent_path();  // PREFIX/bin, PREFIX/lib/python3.12/site-packages/rocmforge
  for (int level = 0; level < 4 && folder.has_relative_path(); ++level) {
    folder = folder.parent_path();
    prefixes.push_back(folder);
  }
  prefixes.insert(prefixes.end(), {"/usr/local", "/usr"});
  return hip_runtime_names(surroundings().folders, pip_rocm_folders(prefixes));
}

/// Throws Error for a library that is no HIP runtime, or one too old.
void try_runtime(const RuntimeLibrary& library, TriedRuntime& tried) {
  const Entry<int(unsigned)> init(library, "hipInit");
  const Entry<int(int*)> version(library, "hipRuntimeGetVersion");
  const Entry<int(int*)> count(library, "hipGetDeviceCount");
  const Entry<int(void**, void*, unsigned long long)> youngest(library, "hipGraphInstantiateWithFlags");
  if (int number = 0; version(&number) == 0) {
    tried.version = hip_version_text(number);
  }
  const int code = init(0);
  if (code != 0 || count(&tried.devices) != 0) {
    tried.devices = 0;
  }
  if (tried.devices == 0) {
    tried.problem = code == 0 || HipApi::means_no_device(code) ? "no device" : fmt::format("hipInit: error {}", code);
  }
}

}  // namespace

void set_rocm_surroundings(RocmSurroundings said) {
  surroundings() = std::move(said);
  kept_choice().reset();
}

std::string rocm_settings() { return fmt::format("{}", fmt::join(surroundings().settings, ", ")); }

std::string rocm_settings_text() {
  const std::string settings = rocm_settings();
  return settings.empty() ? std::string() : fmt::format("; {} set", settings);
}

namespace {

/// Empty when the file can't be opened, or is among `known`.
std::optional<TriedRuntime> try_file(const std::string& name, const std::vector<TriedRuntime>& known) {
  const std::optional<RuntimeLibrary> library = open(name);
  if (!library) {
    return std::nullopt;
  }
  TriedRuntime tried;
  tried.library = real_path(library->path());
  if (std::ranges::find(known, tried.library, &TriedRuntime::library) != known.end()) {
    return std::nullopt;  // a link to one of them
  }
  try {
    try_runtime(*library, tried);
  } catch (const Error& error) {
    tried.problem = error.what();
  }
  return tried;
}

/// A stream of this program needs one hardware queue; more of them cost memory and, on some cards, hang.
void limit_queues() { ::setenv("GPU_MAX_HW_QUEUES", "1", 0); }

}  // namespace

HipChoice choose_hip_runtime(std::span<const std::string> names) {
  limit_queues();
  HipChoice choice;
  for (const std::string& name : names) {
    const std::optional<TriedRuntime> tried = try_file(name, choice.tried);
    if (!tried) {
      continue;
    }
    choice.tried.push_back(*tried);
    if (choice.library.empty() || tried->devices > 0) {
      choice.library = name;
    }
    if (tried->devices > 0) {
      break;
    }
  }
  return choice;
}

const HipChoice& chosen_hip_runtime() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!kept_choice()) {
    const std::vector<std::string> names = runtime_names();
    HipChoice made = choose_hip_runtime(names);
    if (made.library.empty()) {
      std::vector<const char*> pointers;
      std::ranges::transform(names, std::back_inserter(pointers), [](const std::string& name) { return name.c_str(); });
      made.library = RuntimeLibrary(pointers).path();  // throws with the loader's reason
    }
    kept_choice() = std::move(made);
  }
  return *kept_choice();
}

namespace {

/// What a child process writes: library, version, number of devices and problem, one a line. Empty for no runtime.
std::string report_of(const std::string& name) {
  limit_queues();
  const std::optional<TriedRuntime> tried = try_file(name, {});
  return tried ? fmt::format("{}\n{}\n{}\n{}\n", tried->library, tried->version, tried->devices, tried->problem)
               : std::string();
}

[[noreturn]] void report_and_end(const std::string& name, int pipe) {
  const std::string text = report_of(name);
  static_cast<void>(!::write(pipe, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF)));
  ::_exit(0);
}

/// Until the child closes its end, at most until `deadline`. Whether it did.
bool read_all(int pipe, std::string& text, std::chrono::steady_clock::time_point deadline) {
  std::array<char, PIPE_BUF> bytes{};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd waiting{pipe, POLLIN, 0};
    if (left <= 0 || ::poll(&waiting, 1, static_cast<int>(left)) == 0) {
      return false;
    }
    const ssize_t count = ::read(pipe, bytes.data(), bytes.size());
    if (count <= 0) {
      return true;
    }
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
}

/// Empty for what is no runtime.
std::optional<TriedRuntime> try_in_child(const std::string& name, int seconds) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(fmt::format("trying {}: {}", name, std::strerror(errno)));
  }
  const pid_t child = ::fork();
  if (child == 0) {
    report_and_end(name, ends[1]);
  }
  ::close(ends[1]);
  std::string text;
  const bool answered =
      child > 0 && read_all(ends[0], text, std::chrono::steady_clock::now() + std::chrono::seconds(seconds));
  ::close(ends[0]);
  if (child < 0) {
    throw Error(fmt::format("trying {}: no process for it", name));
  }
  if (!answered) {
    ::kill(child, SIGKILL);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  TriedRuntime tried;
  tried.library = name;
  if (!answered) {
    tried.problem = fmt::format("does not answer for {} s", seconds);
  } else if (WIFSIGNALED(status)) {
    tried.problem = fmt::format("crashes: {}", ::strsignal(WTERMSIG(status)));
  } else {
    std::istringstream lines(text);
    std::string devices;
    if (!std::getline(lines, tried.library) || !std::getline(lines, tried.version) || !std::getline(lines, devices)) {
      return std::nullopt;
    }
    std::from_chars(devices.data(), devices.data() + devices.size(), tried.devices);
    std::getline(lines, tried.problem);
  }
  return tried;
}

}  // namespace

std::vector<TriedRuntime> list_hip_runtimes(std::span<const std::string> names, int seconds) {
  std::vector<TriedRuntime> found;
  for (const std::string& name : names) {
    const std::optional<TriedRuntime> tried = try_in_child(name, seconds);
    if (tried && std::ranges::find(found, tried->library, &TriedRuntime::library) == found.end()) {
      found.push_back(*tried);
    }
  }
  return found;
}

std::vector<TriedRuntime> list_hip_runtimes() {
  constexpr int patience_seconds = 10;
  return list_hip_runtimes(runtime_names(), patience_seconds);
}

}  // namespace rocmforge
