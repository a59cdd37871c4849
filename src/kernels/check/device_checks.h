#pragma once

// Checks of a GPU, its instructions and its runtime, apart from the operations of models.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"

namespace rocmforge {

struct DeviceCheckResult {
  std::string problem;        ///< empty: every number was right
  std::int64_t elements = 0;  ///< compared
  double seconds = 0.0;       ///< of what `bytes` were moved in; 0: not timed
  double bytes = 0.0;
};

/// One of them. `run` may throw Error.
struct DeviceCheck {
  std::string_view step;  ///< runtime_step or instructions_step
  std::string_view name;  ///< "copies"
  std::string shape;      ///< "pinned memory, 64 MiB"
  std::function<DeviceCheckResult(Device& device)> run;
};

inline constexpr std::string_view runtime_step = "runtime";
inline constexpr std::string_view instructions_step = "instructions";

/// Copies from pinned, pageable and mapped memory with their bits, fills, events, a graph of 200 kernels each of which
/// needs the one before, large parameters.
std::vector<DeviceCheck> runtime_checks(const DeviceInfo& device);

/// Exchanges between lanes, products of bytes and of tiles, small numbers, a scalar register that is written again and
/// again, barriers, and counters of arrivals under as many work-groups as the device holds. Results are known exactly. On a
/// device that is not driven by a vendor's runtime (an emulator) there are fewer repetitions.
std::vector<DeviceCheck> instruction_checks(const DeviceInfo& device);

}  // namespace rocmforge
