#pragma once

#include "kernels/tile/device_code.h"

namespace rocmforge::gpu {

/// An address of the device's memory, never of shared memory. On AMD what is read through it needs no `flat` instruction,
/// which waits for shared memory too, and which on gfx10.1 counts as neither beside branches. The compiler knows this of a
/// kernel's arguments, but not where a pointer may be null.
#if ROCMFORGE_DEVICE_AMD
template <class T>
using DeviceMemory = __attribute__((address_space(1))) T*;
#else
template <class T>
using DeviceMemory = T*;
#endif

template <class T>
__device__ inline DeviceMemory<T> device_memory(T* address) {
  return (DeviceMemory<T>)address;
}

}  // namespace rocmforge::gpu
