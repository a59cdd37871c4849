#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "device/runtime_library.h"

namespace rocmforge {

/// The part of the HIP runtime that is used here, declared after its published interface of ROCm 5 to 7: pointers stand for
/// its handle types, integers for its enums.
class HipApi {
  static constexpr std::array names{"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so",
                                    "/opt/rocm/lib/libamdhip64.so"};

 public:
  RuntimeLibrary library{names};

  Entry<int(unsigned)> hipInit{library, "hipInit"};
  Entry<int(int*)> hipRuntimeGetVersion{library, "hipRuntimeGetVersion"};
  Entry<const char*(int)> hipGetErrorName{library, "hipGetErrorName"};
  Entry<const char*(int)> hipGetErrorString{library, "hipGetErrorString"};

  Entry<int(int*)> hipGetDeviceCount{library, "hipGetDeviceCount"};
  Entry<int(int*)> hipGetDevice{library, "hipGetDevice"};
  Entry<int(int)> hipSetDevice{library, "hipSetDevice"};
  Entry<int(char*, int, int)> hipDeviceGetName{library, "hipDeviceGetName"};
  Entry<int(std::size_t*, int)> hipDeviceTotalMem{library, "hipDeviceTotalMem"};
  Entry<int(int*, int, int)> hipDeviceGetAttribute{library, "hipDeviceGetAttribute"};
  Entry<int(void*, int)> hipGetDevicePropertiesR0600{library, "hipGetDevicePropertiesR0600", Presence::optional};
  Entry<int(void*, int)> hipGetDeviceProperties{library, "hipGetDeviceProperties", Presence::optional};

  Entry<int(std::size_t*, std::size_t*)> hipMemGetInfo{library, "hipMemGetInfo"};
  Entry<int(void**, std::size_t)> hipMalloc{library, "hipMalloc"};
  Entry<int(void*)> hipFree{library, "hipFree"};
  Entry<int(void**, std::size_t, unsigned)> hipHostMalloc{library, "hipHostMalloc"};
  Entry<int(void*)> hipHostFree{library, "hipHostFree"};
  Entry<int(void*, const void*, std::size_t, int, void*)> hipMemcpyAsync{library, "hipMemcpyAsync"};
  Entry<int(void*, int, std::size_t, void*)> hipMemsetAsync{library, "hipMemsetAsync"};

  Entry<int(void**, unsigned)> hipStreamCreateWithFlags{library, "hipStreamCreateWithFlags"};
  Entry<int(void*)> hipStreamDestroy{library, "hipStreamDestroy"};
  Entry<int(void*)> hipStreamSynchronize{library, "hipStreamSynchronize"};
  Entry<int(void*, void*, unsigned)> hipStreamWaitEvent{library, "hipStreamWaitEvent"};
  Entry<int(void**, unsigned)> hipEventCreateWithFlags{library, "hipEventCreateWithFlags"};
  Entry<int(void*)> hipEventDestroy{library, "hipEventDestroy"};
  Entry<int(void*, void*)> hipEventRecord{library, "hipEventRecord"};
  Entry<int(void*)> hipEventSynchronize{library, "hipEventSynchronize"};
  Entry<int(void*)> hipEventQuery{library, "hipEventQuery"};
  Entry<int(float*, void*, void*)> hipEventElapsedTime{library, "hipEventElapsedTime"};

  Entry<int(void*, int)> hipStreamBeginCapture{library, "hipStreamBeginCapture"};
  Entry<int(void*, void**)> hipStreamEndCapture{library, "hipStreamEndCapture"};
  Entry<int(void**, void*, unsigned long long)> hipGraphInstantiate{library, "hipGraphInstantiateWithFlags"};
  Entry<int(void*, void*)> hipGraphLaunch{library, "hipGraphLaunch"};
  Entry<int(void*)> hipGraphDestroy{library, "hipGraphDestroy"};
  Entry<int(void*)> hipGraphExecDestroy{library, "hipGraphExecDestroy"};

  Entry<int(void**, const void*)> hipModuleLoadData{library, "hipModuleLoadData"};
  Entry<int(void*)> hipModuleUnload{library, "hipModuleUnload"};
  Entry<int(void**, void*, const char*)> hipModuleGetFunction{library, "hipModuleGetFunction"};
  Entry<int(int*, int, void*)> hipFuncGetAttribute{library, "hipFuncGetAttribute"};
  Entry<int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**)>
      hipModuleLaunchKernel{library, "hipModuleLaunchKernel"};

  /// "hipErrorOutOfMemory (out of memory)"
  [[nodiscard]] std::string describe(int code) const;
};

}  // namespace rocmforge
