#pragma once

#include <cstdint>
#include <string>

namespace rocmforge {

/// An access of a GPU to memory that it may not touch, or a failure of its memory.
struct DeviceFault {
  std::uint64_t address = 0;
  std::uint32_t reasons = 0;  ///< bits of ROCr's hsa_amd_memory_fault_reason_t
};

/// "the GPU faulted at address 0x7f0000001000 (page not present); launched last: a, b"
std::string describe(const DeviceFault& fault);

/// What the program does about a fault: `line` describes it. The work of the process on this GPU is lost; a handler that
/// returns leaves the rest to the vendor's runtime, which aborts. It is called on a thread of the runtime.
using DeviceFaultHandler = void (*)(const std::string& line);

/// The handler of this process from now on; null, as at first, for none.
void on_device_fault(DeviceFaultHandler handler);

/// Calls the handler with the description; false when there is none.
bool report_device_fault(const DeviceFault& fault);

/// Asks ROCm's HSA runtime to report faults to the handler, once in a process. Returns false when the process has not loaded
/// that runtime (libhsa-runtime64, which HIP loads) or the runtime refuses.
bool watch_amd_faults();

}  // namespace rocmforge
