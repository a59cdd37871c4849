#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "device/runtime_library.h"

namespace rocmforge {

/// The part of the CUDA driver that is used here, declared after its published interface: pointers stand for its handle
/// types, integers for its enums. The suffixes are the versions that cuda.h maps the plain names to.
class CudaApi {
  static constexpr std::array names{"libcuda.so.1"};

 public:
  RuntimeLibrary library{names};

  Entry<int(unsigned)> cuInit{library, "cuInit"};
  Entry<int(int*)> cuDriverGetVersion{library, "cuDriverGetVersion"};
  Entry<int(int, const char**)> cuGetErrorName{library, "cuGetErrorName"};
  Entry<int(int, const char**)> cuGetErrorString{library, "cuGetErrorString"};

  Entry<int(int*)> cuDeviceGetCount{library, "cuDeviceGetCount"};
  Entry<int(int*, int)> cuDeviceGet{library, "cuDeviceGet"};
  Entry<int(char*, int, int)> cuDeviceGetName{library, "cuDeviceGetName"};
  Entry<int(std::size_t*, int)> cuDeviceTotalMem{library, "cuDeviceTotalMem_v2"};
  Entry<int(int*, int, int)> cuDeviceGetAttribute{library, "cuDeviceGetAttribute"};
  Entry<int(void**, int)> cuDevicePrimaryCtxRetain{library, "cuDevicePrimaryCtxRetain"};
  Entry<int(int)> cuDevicePrimaryCtxRelease{library, "cuDevicePrimaryCtxRelease_v2"};
  Entry<int(void**)> cuCtxGetCurrent{library, "cuCtxGetCurrent"};
  Entry<int(void*)> cuCtxSetCurrent{library, "cuCtxSetCurrent"};

  Entry<int(std::size_t*, std::size_t*)> cuMemGetInfo{library, "cuMemGetInfo_v2"};
  Entry<int(std::uint64_t*, std::size_t)> cuMemAlloc{library, "cuMemAlloc_v2"};
  Entry<int(std::uint64_t)> cuMemFree{library, "cuMemFree_v2"};
  Entry<int(void**, std::size_t, unsigned)> cuMemHostAlloc{library, "cuMemHostAlloc"};
  Entry<int(void*)> cuMemFreeHost{library, "cuMemFreeHost"};
  Entry<int(std::uint64_t, const void*, std::size_t, void*)> cuMemcpyHtoDAsync{library, "cuMemcpyHtoDAsync_v2"};
  Entry<int(void*, std::uint64_t, std::size_t, void*)> cuMemcpyDtoHAsync{library, "cuMemcpyDtoHAsync_v2"};
  Entry<int(std::uint64_t, std::uint64_t, std::size_t, void*)> cuMemcpyDtoDAsync{library, "cuMemcpyDtoDAsync_v2"};
  Entry<int(std::uint64_t, unsigned char, std::size_t, void*)> cuMemsetD8Async{library, "cuMemsetD8Async"};

  Entry<int(void**, unsigned)> cuStreamCreate{library, "cuStreamCreate"};
  Entry<int(void*)> cuStreamDestroy{library, "cuStreamDestroy_v2"};
  Entry<int(void*)> cuStreamSynchronize{library, "cuStreamSynchronize"};
  Entry<int(void*, void*, unsigned)> cuStreamWaitEvent{library, "cuStreamWaitEvent"};
  Entry<int(void**, unsigned)> cuEventCreate{library, "cuEventCreate"};
  Entry<int(void*)> cuEventDestroy{library, "cuEventDestroy_v2"};
  Entry<int(void*, void*)> cuEventRecord{library, "cuEventRecord"};
  Entry<int(void*)> cuEventSynchronize{library, "cuEventSynchronize"};
  Entry<int(void*)> cuEventQuery{library, "cuEventQuery"};
  Entry<int(float*, void*, void*)> cuEventElapsedTime{library, "cuEventElapsedTime"};

  Entry<int(void*, int)> cuStreamBeginCapture{library, "cuStreamBeginCapture_v2"};
  Entry<int(void*, void**)> cuStreamEndCapture{library, "cuStreamEndCapture"};
  Entry<int(void**, void*, unsigned long long)> cuGraphInstantiate{library, "cuGraphInstantiateWithFlags"};
  Entry<int(void*, void*)> cuGraphLaunch{library, "cuGraphLaunch"};
  Entry<int(void*)> cuGraphDestroy{library, "cuGraphDestroy"};
  Entry<int(void*)> cuGraphExecDestroy{library, "cuGraphExecDestroy"};

  Entry<int(void**, const void*, unsigned, int*, void**)> cuModuleLoadDataEx{library, "cuModuleLoadDataEx"};
  Entry<int(void*)> cuModuleUnload{library, "cuModuleUnload"};
  Entry<int(void**, void*, const char*)> cuModuleGetFunction{library, "cuModuleGetFunction"};
  Entry<int(int*, int, void*)> cuFuncGetAttribute{library, "cuFuncGetAttribute"};
  Entry<int(void*, int, int)> cuFuncSetAttribute{library, "cuFuncSetAttribute"};
  Entry<int(void*, std::size_t, std::size_t*, std::size_t*)> cuFuncGetParamInfo{library, "cuFuncGetParamInfo",
                                                                                Presence::optional};  // since 12.4
  Entry<int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**)>
      cuLaunchKernel{library, "cuLaunchKernel"};
  struct LaunchAttribute {
    int id;
    alignas(8) std::array<std::byte, 64> value;
  };
  struct LaunchConfig {
    std::array<unsigned, 3> grid;
    std::array<unsigned, 3> block;
    unsigned shared_bytes;
    void* stream;
    LaunchAttribute* attributes;
    unsigned num_attributes;
  };
  Entry<int(const LaunchConfig*, void*, void**, void**)> cuLaunchKernelEx{library, "cuLaunchKernelEx",
                                                                          Presence::optional};  // since 11.8
  Entry<int(void*, int, unsigned, void*, const std::uint64_t*, const std::uint64_t*, const unsigned*, const unsigned*, int,
            int, int, int)>
      cuTensorMapEncodeTiled{library, "cuTensorMapEncodeTiled", Presence::optional};  // since 12.0

  /// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"
  [[nodiscard]] std::string describe(int code) const;
};

}  // namespace rocmforge
