#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "device/device_info.h"
#include "device/runtime_library.h"

namespace rocmforge {

/// The part of the CUDA driver that is used here, declared after its published interface. Pointers replace its handle types
/// and device addresses, and integers replace its enums. The suffixes are the versions to which cuda.h maps the plain names.
/// Functions that HIP also has carry the same names in HipApi.
class CudaApi {
  static constexpr std::array names{"libcuda.so.1"};

 public:
  static constexpr DeviceKind kind = DeviceKind::cuda;
  static constexpr std::string_view product = "CUDA driver";

  RuntimeLibrary library{names};

  Entry<int(unsigned)> init{library, "cuInit"};
  Entry<int(int*)> runtime_version{library, "cuDriverGetVersion"};
  Entry<int(int, const char**)> error_name{library, "cuGetErrorName"};
  Entry<int(int, const char**)> error_text{library, "cuGetErrorString"};

  Entry<int(int*)> device_count{library, "cuDeviceGetCount"};
  Entry<int(int*, int)> device_get{library, "cuDeviceGet"};
  Entry<int(char*, int, int)> device_name{library, "cuDeviceGetName"};
  Entry<int(std::size_t*, int)> device_memory{library, "cuDeviceTotalMem_v2"};
  Entry<int(int*, int, int)> device_attribute{library, "cuDeviceGetAttribute"};
  Entry<int(void**, int)> retain_context{library, "cuDevicePrimaryCtxRetain"};
  Entry<int(int)> release_context{library, "cuDevicePrimaryCtxRelease_v2"};
  Entry<int(void**)> current_context{library, "cuCtxGetCurrent"};
  Entry<int(void*)> set_context{library, "cuCtxSetCurrent"};

  Entry<int(std::size_t*, std::size_t*)> memory_info{library, "cuMemGetInfo_v2"};
  Entry<int(void**, std::size_t)> allocate{library, "cuMemAlloc_v2"};
  Entry<int(void*)> free{library, "cuMemFree_v2"};
  Entry<int(void**, std::size_t, unsigned)> allocate_pinned{library, "cuMemHostAlloc"};
  Entry<int(void*)> free_pinned{library, "cuMemFreeHost"};
  Entry<int(void*, const void*, std::size_t, void*)> copy_to_device{library, "cuMemcpyHtoDAsync_v2"};
  Entry<int(void*, const void*, std::size_t, void*)> copy_to_host{library, "cuMemcpyDtoHAsync_v2"};
  Entry<int(void*, const void*, std::size_t, void*)> copy_on_device{library, "cuMemcpyDtoDAsync_v2"};
  Entry<int(void*, unsigned char, std::size_t, void*)> fill{library, "cuMemsetD8Async"};

  Entry<int(void**, unsigned)> create_stream{library, "cuStreamCreate"};
  Entry<int(void*)> destroy_stream{library, "cuStreamDestroy_v2"};
  Entry<int(void*)> synchronize_stream{library, "cuStreamSynchronize"};
  Entry<int(void*, void*, unsigned)> wait_for_event{library, "cuStreamWaitEvent"};
  Entry<int(void**, unsigned)> create_event{library, "cuEventCreate"};
  Entry<int(void*)> destroy_event{library, "cuEventDestroy_v2"};
  Entry<int(void*, void*)> record_event{library, "cuEventRecord"};
  Entry<int(void*)> synchronize_event{library, "cuEventSynchronize"};
  Entry<int(void*)> query_event{library, "cuEventQuery"};
  Entry<int(float*, void*, void*)> elapsed_time{library, "cuEventElapsedTime"};

  Entry<int(void*, int)> begin_capture{library, "cuStreamBeginCapture_v2"};
  Entry<int(void*, void**)> end_capture{library, "cuStreamEndCapture"};
  Entry<int(void**, void*, unsigned long long)> instantiate_graph{library, "cuGraphInstantiateWithFlags"};
  Entry<int(void*, void*)> launch_graph{library, "cuGraphLaunch"};
  Entry<int(void*)> destroy_graph{library, "cuGraphDestroy"};
  Entry<int(void*)> destroy_graph_exec{library, "cuGraphExecDestroy"};

  Entry<int(void**, const void*, unsigned, int*, void**)> load_module{library, "cuModuleLoadDataEx"};
  Entry<int(void*)> unload_module{library, "cuModuleUnload"};
  Entry<int(void**, void*, const char*)> module_function{library, "cuModuleGetFunction"};
  Entry<int(int*, int, void*)> function_attribute{library, "cuFuncGetAttribute"};
  Entry<int(void*, int, int)> set_function_attribute{library, "cuFuncSetAttribute"};
  Entry<int(void*, std::size_t, std::size_t*, std::size_t*)> parameter_info{library, "cuFuncGetParamInfo",
                                                                            Presence::optional};  // since 12.4
  Entry<int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**)>
      launch_kernel{library, "cuLaunchKernel"};
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
  Entry<int(const LaunchConfig*, void*, void**, void**)> launch_kernel_ex{library, "cuLaunchKernelEx",
                                                                          Presence::optional};  // since 11.8
  Entry<int(void*, int, unsigned, void*, const std::uint64_t*, const std::uint64_t*, const unsigned*, const unsigned*, int,
            int, int, int)>
      encode_tensor_map{library, "cuTensorMapEncodeTiled", Presence::optional};  // since 12.0

  /// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"
  [[nodiscard]] std::string describe(int code) const;
  [[nodiscard]] std::string version() const;  ///< "13.0"
  [[nodiscard]] DeviceInfo device_info(int index) const;
  /// Whether this result of `init` means that the machine has no device.
  static bool means_no_device(int code);

  /// Makes a context current on the calling thread. The destructor restores the context that was current before, if there
  /// was one.
  class Scope {
   public:
    using Target = void*;
    Scope(const CudaApi& api, void* context) : api_(&api) {
      call(api, api.current_context, &before_);
      if (before_ != context) {
        call(api, api.set_context, context);
        restore_ = before_ != nullptr;
      }
    }
    ~Scope() {
      if (restore_) {
        api_->set_context(before_);
      }
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const CudaApi* api_;
    void* before_ = nullptr;
    bool restore_ = false;
  };
};

}  // namespace rocmforge
