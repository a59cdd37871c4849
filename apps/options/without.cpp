#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "flags.h"
#include "kernels/register_all.h"
#include "suggest.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

/// "matmul:own" and "own".
AvoidedKernel parse(const std::string& text, std::string_view flag) {
  const std::size_t colon = text.find(':');
  AvoidedKernel parsed{"", text, fmt::format("{} {}", flag, text)};
  if (colon != std::string::npos) {
    parsed.operation = text.substr(0, colon);
    parsed.kernel = text.substr(colon + 1);
  }
  return parsed;
}

/// Throws UsageError where no kernel is meant by `wanted`.
void check_exists(const AvoidedKernel& wanted, const KernelRegistry& registry) {
  std::vector<std::string> kernels;
  std::vector<std::string> operations;
  bool exists = false;
  registry.for_each([&](std::string_view operation, const auto& kernel) {
    operations.emplace_back(operation);
    if (wanted.operation.empty() || wanted.operation == operation) {
      kernels.emplace_back(kernel.name());
      exists = exists || is_named(kernel.name(), wanted.kernel);
    }
  });
  if (exists) {
    return;
  }
  const bool no_operation = kernels.empty();
  const std::string near = no_operation ? nearest(wanted.operation, operations) : nearest(wanted.kernel, kernels);
  throw UsageError(fmt::format("{}: there is no {} '{}'{} (rocmforge devices lists all)", wanted.reason,
                               no_operation ? "operation" : "kernel", no_operation ? wanted.operation : wanted.kernel,
                               near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

}  // namespace

Option without_option(std::vector<std::string>& target) {
  return {"--without", &target, "Do not use this kernel (names: rocmforge devices); repeatable", "[OPERATION:]KERNEL"};
}

Option no_avoid_option(bool& target) {
  return {"--no-avoid", &target, "Use also kernels that `rocmforge check --save` found wrong on this device"};
}

std::vector<AvoidedKernel> kernels_of_flag(std::string_view flag, const std::vector<std::string>& names) {
  std::vector<AvoidedKernel> kernels;
  if (names.empty()) {
    return kernels;
  }
  KernelRegistry registry;
  register_all_kernels(registry);
  for (const std::string& name : names) {
    check_exists(kernels.emplace_back(parse(name, flag)), registry);
  }
  return kernels;
}

std::vector<AvoidedKernel> avoided_kernels(const std::vector<std::string>& names) {
  return kernels_of_flag("--without", names);
}

std::filesystem::path ceilings_file() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path folder = cache != nullptr && *cache != '\0' ? std::filesystem::path(cache)
                                       : home != nullptr && *home != '\0' ? std::filesystem::path(home) / ".cache"
                                                                          : std::filesystem::temp_directory_path();
  return folder / "rocmforge" / "ceilings.txt";
}

std::filesystem::path checks_folder() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (state != nullptr && *state == '/') {
    return std::filesystem::path(state) / "rocmforge" / "checks";
  }
  return home != nullptr && *home == '/' ? std::filesystem::path(home) / ".local" / "state" / "rocmforge" / "checks"
                                         : std::filesystem::path();
}

}  // namespace rocmforge::app
