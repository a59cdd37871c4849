// A HIP runtime 7.1 with two devices, a card and a processor's GPU, whose memory is the host's. Every call that returns an
// error code can be made to fail. Kernels do nothing. With FAKE_FAULTING_LAUNCH, the path of the fake HSA runtime in
// FAKE_HSA: that launch touches memory that it may not, and from then on nothing that the host waits for ends.

#include "fake_hip_runtime.h"

#ifdef FAKE_FAULTING_LAUNCH
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#endif

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int failed = 999;
constexpr int attribute_integrated = 16;
constexpr int attribute_l2_bytes = 19;
constexpr int attribute_multiprocessors = 63;
constexpr int attribute_shared_bytes = 74;
constexpr int attribute_warp_size = 87;

rocmforge::FakeHip state;
int current = 0;

/// 0, or the code of the call that is to fail.
int outcome() { return ++state.calls == state.fail_at ? failed : 0; }

int create(std::set<void*>& kind, void** handle, std::size_t size_bytes = 1) {
  if (const int code = outcome(); code != 0) {
    return code;
  }
  *handle = std::aligned_alloc(256, (size_bytes + 255) / 256 * 256);
  kind.insert(*handle);
  return 0;
}

/// The object is gone even if the call fails: runtimes say with it that earlier work has failed.
int destroy(std::set<void*>& kind, void* handle) {
  if (kind.erase(handle) == 0) {
    std::abort();  // of what does not exist
  }
  std::free(handle);
  return outcome();
}

#ifdef FAKE_FAULTING_LAUNCH
constexpr int function_attribute = 1024;  ///< threads of the largest work-group
/// As HIP does, it loads the runtime below it.
void* const hsa = ::dlopen(FAKE_HSA, RTLD_NOW | RTLD_GLOBAL);
std::atomic<int> launches{0};

void count_launch() {
  if (++launches == FAKE_FAULTING_LAUNCH) {
    std::thread([] {
      const auto report =
          reinterpret_cast<int (*)(std::uint32_t, std::uint64_t, std::uint32_t)>(::dlsym(hsa, "fake_hsa_event"));
      report(0, 0x7f3a10c00000, 3);
    }).detach();
  }
}
void wait_for_device() {
  while (launches >= FAKE_FAULTING_LAUNCH) {
    ::pause();
  }
}
#else
constexpr int function_attribute = 256;
void count_launch() {}
void wait_for_device() {}
#endif

}  // namespace

extern "C" {
rocmforge::FakeHip* fake_hip() { return &state; }

int hipInit(unsigned) { return outcome(); }
int hipRuntimeGetVersion(int* version) { return *version = 70100005, outcome(); }
const char* hipGetErrorName(int code) { return code == failed ? "hipErrorUnknown" : nullptr; }
const char* hipGetErrorString(int code) { return code == failed ? "unknown error" : nullptr; }

int hipGetDeviceCount(int* count) {
  const int code = outcome();
  *count = code == 0 ? 2 : 0;
  return code;
}
int hipGetDevice(int* device) { return *device = current, outcome(); }
int hipSetDevice(int device) { return current = device, outcome(); }
int hipDeviceGetName(char* name, int size, int device) {
  std::strncpy(name, device == 0 ? "Fake Card" : "Fake Graphics", static_cast<std::size_t>(size));
  return outcome();
}
int hipDeviceTotalMem(std::size_t* bytes, int) { return *bytes = std::size_t{16} << 30, outcome(); }
int hipDeviceGetAttribute(int* value, int which, int device) {
  *value = which == attribute_integrated        ? 0  // as HIP 5 says of every device
           : which == attribute_l2_bytes        ? 6 << 20
           : which == attribute_multiprocessors ? (device == 0 ? 48 : 20)
           : which == attribute_shared_bytes    ? 65536
           : which == attribute_warp_size       ? 32
                                                : -1;
  return outcome();
}
int hipGetDevicePropertiesR0600(void* properties, int device) {
  std::strcpy(static_cast<char*>(properties) + 1160, device == 0 ? "gfx1100" : "gfx1151");
  return outcome();
}
int hipDeviceGetPCIBusId(char* address, int, int) { return std::strcpy(address, "ffff:ff:1f.7"), outcome(); }

int hipMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *free_bytes = std::size_t{15} << 30;
  *total_bytes = std::size_t{16} << 30;
  return outcome();
}
int hipMalloc(void** address, std::size_t size) { return create(state.memory, address, size); }
int hipExtMallocWithFlags(void** address, std::size_t size, unsigned flags) {
  constexpr unsigned uncached = 3;  // hipDeviceMallocUncached
  state.uncached += flags == uncached ? 1 : 0;
  return create(state.memory, address, size);
}
int hipDeviceCanAccessPeer(int* able, int, int) { return *able = state.reaches_peers ? 1 : 0, outcome(); }
int hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  constexpr int invalid_value = 1;
  constexpr int already_enabled = 704;
  if (flags != 0) {
    return invalid_value;
  }
  return state.peers.insert({current, peer}).second ? outcome() : already_enabled;
}
int hipFree(void* address) { return destroy(state.memory, address); }
int hipHostMalloc(void** address, std::size_t size, unsigned) { return create(state.pinned, address, size); }
int hipHostFree(void* address) { return destroy(state.pinned, address); }
int hipMemcpyAsync(void* to, const void* from, std::size_t size, int, void*) {
  return std::memcpy(to, from, size), outcome();
}
int hipMemsetAsync(void* to, int value, std::size_t size, void*) { return std::memset(to, value, size), outcome(); }

int hipStreamCreateWithFlags(void** stream, unsigned) { return create(state.streams, stream); }
int hipStreamDestroy(void* stream) { return destroy(state.streams, stream); }
int hipStreamSynchronize(void*) { return wait_for_device(), outcome(); }
int hipStreamWaitEvent(void*, void*, unsigned) { return outcome(); }
int hipEventCreateWithFlags(void** event, unsigned) { return create(state.events, event); }
int hipEventDestroy(void* event) { return destroy(state.events, event); }
int hipEventRecord(void*, void*) { return outcome(); }
int hipEventSynchronize(void*) { return wait_for_device(), outcome(); }
int hipEventQuery(void*) { return outcome(); }
int hipEventElapsedTime(float* milliseconds, void*, void*) { return *milliseconds = 1.0F, outcome(); }

int hipStreamBeginCapture(void*, int) { return outcome(); }
int hipStreamEndCapture(void*, void** graph) { return create(state.graphs, graph); }
int hipGraphInstantiateWithFlags(void** graph, void*, unsigned long long) { return create(state.graphs, graph); }
int hipGraphLaunch(void*, void*) { return outcome(); }
int hipGraphDestroy(void* graph) { return destroy(state.graphs, graph); }
int hipGraphExecDestroy(void* graph) { return destroy(state.graphs, graph); }

int hipModuleLoadData(void** module, const void*) { return create(state.modules, module); }
int hipModuleUnload(void* module) { return destroy(state.modules, module); }
int hipModuleGetFunction(void** function, void* module, const char*) { return *function = module, outcome(); }
int hipFuncGetAttribute(int* value, int, void*) { return *value = function_attribute, outcome(); }
int hipModuleLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                          void**) {
  return count_launch(), outcome();
}
}
