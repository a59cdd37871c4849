#include "device/device_faults.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "device/launch_trace.h"

namespace rocmforge {
namespace {

std::atomic<DeviceFaultHandler> current_handler{nullptr};

// ROCr's interface (hsa_ext_amd.h), the same in ROCm 5 to 7.
constexpr int hsa_success = 0;
constexpr int hsa_error = 0x1000;
constexpr std::uint32_t memory_fault_event = 0;
constexpr const char* hsa_library = "libhsa-runtime64.so.1";
constexpr const char* hsa_register = "hsa_amd_register_system_event_handler";
constexpr std::pair<std::uint32_t, std::string_view> reason_texts[] = {
    {1u << 0, "page not present"},       {1u << 1, "write to a read-only page"}, {1u << 2, "page not executable"},
    {1u << 3, "page of the host alone"}, {1u << 4, "memory ECC failure"},        {1u << 5, "address not exact"},
    {1u << 6, "SRAM ECC failure"},       {1u << 31, "reset after a hang"}};

struct HsaEvent {
  std::uint32_t type;
  std::uint32_t unused;
  // of memory_fault_event
  std::uint64_t agent;
  std::uint64_t address;
  std::uint32_t reasons;
};

/// An event that is no memory fault is left to the runtime, which aborts with a message of its own.
int on_event(const void* data, void* /*of_registration*/) {
  const auto* event = static_cast<const HsaEvent*>(data);
  if (event != nullptr && event->type == memory_fault_event) {
    try {
      report_device_fault({event->address, event->reasons});
    } catch (...) {  // no memory for a line
    }
  }
  return hsa_error;
}

bool register_handler() {
  void* const library = ::dlopen(hsa_library, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) {
    return false;
  }
  using Callback = int (*)(const void* event, void* data);
  const auto add = reinterpret_cast<int (*)(Callback, void*)>(::dlsym(library, hsa_register));
  return add != nullptr && add(on_event, nullptr) == hsa_success;
}

}  // namespace

std::string describe(const DeviceFault& fault) {
  std::vector<std::string_view> reasons;
  for (const auto& [bit, text] : reason_texts) {
    if ((fault.reasons & bit) != 0) {
      reasons.push_back(text);
    }
  }
  const std::string why =
      reasons.empty() ? fmt::format("reason {:#x}", fault.reasons) : fmt::format("{}", fmt::join(reasons, ", "));
  return fmt::format("the GPU faulted at address {:#x} ({}); {}", fault.address, why, launched_last());
}

void on_device_fault(DeviceFaultHandler handler) { current_handler.store(handler); }

bool report_device_fault(const DeviceFault& fault) {
  const DeviceFaultHandler handler = current_handler.load();
  if (handler != nullptr) {
    handler(describe(fault));
  }
  return handler != nullptr;
}

bool watch_amd_faults() {
  static std::mutex mutex;
  static bool watched = false;
  const std::lock_guard lock(mutex);
  watched = watched || register_handler();
  return watched;
}

}  // namespace rocmforge
