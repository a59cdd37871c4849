#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "device/amd_system.h"
#include "device/device_info.h"
#include "device/runtime_library.h"

namespace rocmforge {

/// "6.2.41134"
std::string hip_version_text(int version);

/// The part of the HIP runtime that is used here, declared after its published interface of ROCm 5 to 7. Pointers replace
/// its handle types, and integers replace its enums. Functions that the CUDA driver also has carry the same names in
/// CudaApi.
class HipApi {
  static RuntimeLibrary open_library();

 public:
  static constexpr DeviceKind kind = DeviceKind::hip;
  static constexpr std::string_view product = "HIP";

  RuntimeLibrary library = open_library();

  Entry<int(unsigned)> init{library, "hipInit"};
  Entry<int(int*)> runtime_version{library, "hipRuntimeGetVersion"};
  Entry<const char*(int)> error_name{library, "hipGetErrorName"};
  Entry<const char*(int)> error_text{library, "hipGetErrorString"};

  Entry<int(int*)> device_count{library, "hipGetDeviceCount"};
  Entry<int(int*)> current_device{library, "hipGetDevice"};
  Entry<int(int)> set_device{library, "hipSetDevice"};
  Entry<int(char*, int, int)> device_name{library, "hipDeviceGetName"};
  Entry<int(std::size_t*, int)> device_memory{library, "hipDeviceTotalMem"};
  Entry<int(int*, int, int)> device_attribute{library, "hipDeviceGetAttribute"};
  Entry<int(void*, int)> device_properties_r0600{library, "hipGetDevicePropertiesR0600", Presence::optional};
  Entry<int(void*, int)> device_properties{library, "hipGetDeviceProperties", Presence::optional};

  Entry<int(char*, int, int)> pci_address{library, "hipDeviceGetPCIBusId", Presence::optional};

  Entry<int(std::size_t*, std::size_t*)> memory_info{library, "hipMemGetInfo"};
  Entry<int(void**, std::size_t)> allocate{library, "hipMalloc"};
  Entry<int(void*)> free{library, "hipFree"};
  Entry<int(void**, std::size_t, unsigned)> allocate_pinned{library, "hipHostMalloc"};
  Entry<int(void*)> free_pinned{library, "hipHostFree"};
  Entry<int(void*, const void*, std::size_t, int, void*)> copy{library, "hipMemcpyAsync"};
  Entry<int(void*, int, std::size_t, void*)> fill{library, "hipMemsetAsync"};

  Entry<int(void**, unsigned)> create_stream{library, "hipStreamCreateWithFlags"};
  Entry<int(void*)> destroy_stream{library, "hipStreamDestroy"};
  Entry<int(void*)> synchronize_stream{library, "hipStreamSynchronize"};
  Entry<int(void*, void*, unsigned)> wait_for_event{library, "hipStreamWaitEvent"};
  Entry<int(void**, unsigned)> create_event{library, "hipEventCreateWithFlags"};
  Entry<int(void*)> destroy_event{library, "hipEventDestroy"};
  Entry<int(void*, void*)> record_event{library, "hipEventRecord"};
  Entry<int(void*)> synchronize_event{library, "hipEventSynchronize"};
  Entry<int(void*)> query_event{library, "hipEventQuery"};
  Entry<int(float*, void*, void*)> elapsed_time{library, "hipEventElapsedTime"};

  Entry<int(void*, int)> begin_capture{library, "hipStreamBeginCapture"};
  Entry<int(void*, void**)> end_capture{library, "hipStreamEndCapture"};
  Entry<int(void**, void*, unsigned long long)> instantiate_graph{library, "hipGraphInstantiateWithFlags"};
  Entry<int(void*, void*)> launch_graph{library, "hipGraphLaunch"};
  Entry<int(void*)> destroy_graph{library, "hipGraphDestroy"};
  Entry<int(void*)> destroy_graph_exec{library, "hipGraphExecDestroy"};

  Entry<int(void**, const void*)> load_module{library, "hipModuleLoadData"};
  Entry<int(void*)> unload_module{library, "hipModuleUnload"};
  Entry<int(void**, void*, const char*)> module_function{library, "hipModuleGetFunction"};
  Entry<int(int*, int, void*)> function_attribute{library, "hipFuncGetAttribute"};
  Entry<int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**)>
      launch_kernel{library, "hipModuleLaunchKernel"};

  /// "hipErrorOutOfMemory (out of memory)"
  [[nodiscard]] std::string describe(int code) const;
  [[nodiscard]] std::string version() const;  ///< "6.2.41134"
  [[nodiscard]] DeviceInfo device_info(int index) const;
  /// "0000:c5:00.0", empty when the runtime does not report it.
  [[nodiscard]] std::string pci_address_of(int index) const;
  /// The memory as the kernel driver counts it. Empty when the driver or the runtime does not report it.
  [[nodiscard]] std::optional<AmdCardMemory> card_memory(int index) const;
  /// Whether this result of `init` means that the machine has no device.
  static bool means_no_device(int code);

  /// Makes a device current on the calling thread. The destructor restores the device that was current before.
  class Scope {
   public:
    using Target = int;
    Scope(const HipApi& api, int index) : api_(&api) {
      call(api, api.current_device, &before_);
      changed_ = before_ != index;
      if (changed_) {
        call(api, api.set_device, index);
      }
    }
    ~Scope() {
      if (changed_) {
        api_->set_device(before_);
      }
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const HipApi* api_;
    int before_ = 0;
    bool changed_ = false;
  };
};

}  // namespace rocmforge
