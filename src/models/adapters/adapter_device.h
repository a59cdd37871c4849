#pragma once

#include <cstdint>

#include "device/device.h"
#include "ops/kernel_registry.h"

namespace rocmforge {

/// Where an adapter of a model is loaded: the device, its kernels, and the limit of its steps.
struct AdapterDevice {
  const KernelRegistry* registry = nullptr;
  const DeviceInfo* info = nullptr;
  Device* device = nullptr;
  ThreadPool* pool = nullptr;
  std::int64_t rows = 0;  ///< of a step
};

}  // namespace rocmforge
