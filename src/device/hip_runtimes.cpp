#include "device/hip_runtimes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "device/amd_system.h"
#include "device/hip_api.h"
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

std::vector<std::filesystem::path>& preferred_folders() {
  static std::vector<std::filesystem::path> folders;
  return folders;
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

void prefer_rocm_folders(std::vector<std::filesystem::path> folders) { preferred_folders() = std::move(folders); }

HipChoice choose_hip_runtime(std::span<const std::string> names) {
  HipChoice choice;
  for (const std::string& name : names) {
    const std::optional<RuntimeLibrary> library = open(name);
    if (!library) {
      continue;
    }
    TriedRuntime tried;
    tried.library = real_path(library->path());
    if (std::ranges::find(choice.tried, tried.library, &TriedRuntime::library) != choice.tried.end()) {
      continue;  // a link to one of them
    }
    try {
      try_runtime(*library, tried);
    } catch (const Error& error) {
      tried.problem = error.what();
    }
    choice.tried.push_back(tried);
    if (choice.library.empty() || tried.devices > 0) {
      choice.library = name;
    }
    if (tried.devices > 0) {
      break;
    }
  }
  return choice;
}

const HipChoice& chosen_hip_runtime() {
  static const HipChoice choice = [] {
    // A stream of this program needs one hardware queue; more of them cost memory and, on some cards, hang.
    ::setenv("GPU_MAX_HW_QUEUES", "1", 0);
    const std::vector<std::string> names = hip_runtime_names(preferred_folders());
    HipChoice made = choose_hip_runtime(names);
    if (made.library.empty()) {
      std::vector<const char*> pointers;
      std::ranges::transform(names, std::back_inserter(pointers), [](const std::string& name) { return name.c_str(); });
      made.library = RuntimeLibrary(pointers).path();  // throws with the loader's reason
    }
    return made;
  }();
  return choice;
}

}  // namespace rocmforge
