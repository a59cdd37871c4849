// ROCm's HSA runtime as far as a program asks it to report faults. A test makes it report one.

#include <cstdint>

namespace {

struct Event {
  std::uint32_t type;
  std::uint64_t agent;
  std::uint64_t address;
  std::uint32_t reasons;
};
using Callback = int (*)(const void* event, void* data);

Callback registered = nullptr;
void* registered_data = nullptr;

}  // namespace

extern "C" {
int hsa_amd_register_system_event_handler(Callback callback, void* data) {
  registered = callback;
  registered_data = data;
  return 0;
}

/// What the handler returns; -1 without one.
int fake_hsa_event(std::uint32_t type, std::uint64_t address, std::uint32_t reasons) {
  const Event event{type, 1, address, reasons};
  return registered == nullptr ? -1 : registered(&event, registered_data);
}
}
