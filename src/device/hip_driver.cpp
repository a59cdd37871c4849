#include <fmt/format.h>

#include <array>
#include <cstring>
#include <functional>
#include <list>
#include <utility>

#include "device/hip_api.h"
#include "device/runtimes.h"

namespace rocmforge {

std::string HipApi::describe(int code) const {
  const char* name = hipGetErrorName(code);
  const char* text = hipGetErrorString(code);
  if (name == nullptr) {
    return fmt::format("error {}", code);
  }
  return text == nullptr || std::strcmp(name, text) == 0 ? name : fmt::format("{} ({})", name, text);
}

namespace {

// Values of the runtime's enums, the same in ROCm 5, 6 and 7.
constexpr int error_no_device = 100;
constexpr int error_invalid_device = 101;
constexpr int error_not_found = 500;
constexpr int error_not_ready = 600;
constexpr int attribute_l2_bytes = 19;
constexpr int attribute_multiprocessors = 63;
constexpr int attribute_shared_bytes = 74;
constexpr int attribute_warp_size = 87;
constexpr int function_max_threads = 0;
constexpr int function_shared_bytes = 1;
constexpr int function_local_bytes = 3;
constexpr int function_registers = 4;
constexpr unsigned host_malloc_portable = 1;
constexpr unsigned stream_non_blocking = 1;
constexpr int capture_thread_local = 1;
constexpr int copy_host_to_device = 1;
constexpr int copy_device_to_host = 2;
constexpr int copy_device_to_device = 3;

/// The runtime's properties of a device, whose layout changed with ROCm 6; the offsets are those of gcnArchName.
constexpr std::size_t properties_bytes = 8192;  // of 792 before, of 1472 since
constexpr std::size_t name_offset_r0600 = 1160;
constexpr std::size_t name_offset_before = 396;
constexpr std::size_t name_bytes = 256;

int attribute(const HipApi& api, int index, int which) {
  int value = 0;
  call(api, api.hipDeviceGetAttribute, &value, which, index);
  return value;
}

/// "gfx942:sramecc+:xnack-". Only the properties tell it as the runtime sees it: what the kernel driver lists under
/// /sys/class/kfd knows nothing of an overridden version, and containers hide it. The function whose name ends in R0600 has
/// had one layout since ROCm 6; without it the library is of ROCm 5, where the plain name means the older layout. (In
/// ROCm 6 and 7 the plain name still exports the older one, and is not used.) What is read must look like a name.
std::string architecture(const HipApi& api, int index) {
  std::array<char, properties_bytes> properties{};
  std::size_t offset = name_offset_r0600;
  if (api.hipGetDevicePropertiesR0600) {
    call(api, api.hipGetDevicePropertiesR0600, static_cast<void*>(properties.data()), index);
  } else if (api.hipGetDeviceProperties) {
    call(api, api.hipGetDeviceProperties, static_cast<void*>(properties.data()), index);
    offset = name_offset_before;
  }
  const char* start = properties.data() + offset;
  std::string name(start, ::strnlen(start, name_bytes));
  if (!name.starts_with("gfx")) {
    throw Error(fmt::format("{} does not tell the architecture of device hip:{}", api.library.path(), index));
  }
  return name;
}

DeviceInfo device_info(const HipApi& api, int index) {
  std::array<char, 256> name{};
  call(api, api.hipDeviceGetName, name.data(), static_cast<int>(name.size()) - 1, index);
  std::size_t memory_bytes = 0;
  call(api, api.hipDeviceTotalMem, &memory_bytes, index);

  DeviceInfo info;
  info.kind = DeviceKind::hip;
  info.vendor_runtime = true;
  info.index = index;
  info.architecture = architecture(api, index);
  info.name = name[0] != '\0' ? name.data() : info.architecture;
  info.compute_units = attribute(api, index, attribute_multiprocessors);
  info.memory_bytes = static_cast<std::int64_t>(memory_bytes);
  info.wave_size = attribute(api, index, attribute_warp_size);
  info.shared_memory_bytes = attribute(api, index, attribute_shared_bytes);
  info.l2_bytes = attribute(api, index, attribute_l2_bytes);
  return info;
}

std::string version_text(const HipApi& api) {
  int version = 0;
  call(api, api.hipRuntimeGetVersion, &version);
  return fmt::format("{}.{}.{}", version / 10000000, version / 100000 % 100, version % 100000);
}

/// The number of devices. Throws Error when there is none.
int initialize(const HipApi& api) {
  const int code = api.hipInit(0);
  int count = 0;
  if (code == 0) {
    call(api, api.hipGetDeviceCount, &count);
  } else if (code != error_no_device && code != error_invalid_device) {  // ROCm 5 says the second of no device at all
    throw Error(fmt::format("hipInit: {}", api.describe(code)));
  }
  if (count == 0) {
    throw Error(fmt::format("no device: hipInit says {}", api.describe(code)));
  }
  return count;
}

/// Makes a device the calling thread's own, and gives a thread that uses another one that one back.
class DeviceScope {
 public:
  DeviceScope(const HipApi& api, int index) : api_(&api) {
    call(api, api.hipGetDevice, &before_);
    changed_ = before_ != index;
    if (changed_) {
      call(api, api.hipSetDevice, index);
    }
  }
  ~DeviceScope() {
    if (changed_) {
      api_->hipSetDevice(before_);
    }
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  const HipApi* api_;
  int before_ = 0;
  bool changed_ = false;
};

class HipDriver final : public Driver {
 public:
  explicit HipDriver(int index);

  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] std::string runtime() const override { return "HIP " + version_text(api_); }
  [[nodiscard]] Memory memory() override;
  void with_device(const std::function<void()>& act) override {
    const DeviceScope scope(api_, info_.index);
    act();
  }

  void free(void* pointer) noexcept override { quietly(api_.hipFree, pointer); }
  void* allocate_pinned(std::size_t size_bytes) override;
  void free_pinned(void* pointer) noexcept override { quietly(api_.hipHostFree, pointer); }

  StreamHandle create_stream() override;
  void destroy_stream(StreamHandle stream) noexcept override { quietly(api_.hipStreamDestroy, stream.value); }
  EventHandle create_event() override;
  void destroy_event(EventHandle event) noexcept override { quietly(api_.hipEventDestroy, event.value); }
  void record(EventHandle event, StreamHandle stream) override { act(api_.hipEventRecord, event.value, stream.value); }
  bool finished(EventHandle event) override;
  void wait(StreamHandle stream, EventHandle event) override { act(api_.hipStreamWaitEvent, stream.value, event.value, 0U); }
  double elapsed_seconds(EventHandle from, EventHandle to) override;

  // Calls of this thread that a recording cannot hold, such as allocations, then fail; other threads are free.
  void begin_capture(StreamHandle stream) override { act(api_.hipStreamBeginCapture, stream.value, capture_thread_local); }
  GraphHandle end_capture(StreamHandle stream) override;
  void destroy_graph(GraphHandle graph) noexcept override { quietly(api_.hipGraphExecDestroy, graph.value); }

  ModuleHandle load_module(std::span<const std::byte> code_object, std::string_view label) override;
  void unload_module(ModuleHandle module) noexcept override;
  FunctionHandle find_function(ModuleHandle module, const std::string& kernel) override;
  FunctionInfo function_info(FunctionHandle function) override { return static_cast<LoadedFunction*>(function.value)->info; }

 private:
  void* do_allocate(std::size_t size_bytes) override;
  void do_copy_to_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) override {
    act(api_.hipMemcpyAsync, to, from, size_bytes, copy_host_to_device, stream.value);
  }
  void do_copy_to_host(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) override {
    act(api_.hipMemcpyAsync, to, from, size_bytes, copy_device_to_host, stream.value);
  }
  void do_copy_on_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) override {
    act(api_.hipMemcpyAsync, to, from, size_bytes, copy_device_to_device, stream.value);
  }
  void do_fill(void* to, std::uint8_t value, std::size_t size_bytes, StreamHandle stream) override {
    act(api_.hipMemsetAsync, to, int{value}, size_bytes, stream.value);
  }
  void do_synchronize(StreamHandle stream) override { act(api_.hipStreamSynchronize, stream.value); }
  void do_synchronize(EventHandle event) override { act(api_.hipEventSynchronize, event.value); }
  void do_launch(GraphHandle graph, StreamHandle stream) override { act(api_.hipGraphLaunch, graph.value, stream.value); }
  void do_launch(FunctionHandle handle, std::string_view kernel, const LaunchShape& shape, std::span<const std::byte> args,
                 StreamHandle stream) override;

  template <class EntryType, class... Arguments>
  void act(const EntryType& entry, Arguments... arguments) const {
    const DeviceScope scope(api_, info_.index);
    call(api_, entry, arguments...);
  }
  /// For destructors: there is nobody to tell.
  template <class EntryType, class... Arguments>
  void quietly(const EntryType& entry, Arguments... arguments) const noexcept {
    try {
      const DeviceScope scope(api_, info_.index);
      entry(arguments...);
    } catch (...) {
    }
  }
  [[nodiscard]] int function_attribute(void* function, int which) const {
    int value = -1;
    return api_.hipFuncGetAttribute(&value, which, function) == 0 ? value : -1;
  }

  HipApi api_;
  DeviceInfo info_;
  std::list<LoadedFunction> functions_;  ///< handles point into it
};

HipDriver::HipDriver(int index) {
  const int count = initialize(api_);
  if (index < 0 || index >= count) {
    throw Error(fmt::format("there is no device hip:{}, only {} of them from hip:0", index, count));
  }
  info_ = device_info(api_, index);
}

Driver::Memory HipDriver::memory() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  act(api_.hipMemGetInfo, &free_bytes, &total_bytes);
  return {static_cast<std::int64_t>(free_bytes), static_cast<std::int64_t>(total_bytes)};
}

void* HipDriver::do_allocate(std::size_t size_bytes) {
  void* start = nullptr;
  act(api_.hipMalloc, &start, size_bytes);
  return start;
}

void* HipDriver::allocate_pinned(std::size_t size_bytes) {
  void* pointer = nullptr;
  act(api_.hipHostMalloc, &pointer, size_bytes, host_malloc_portable);
  return pointer;
}

StreamHandle HipDriver::create_stream() {
  StreamHandle stream;
  act(api_.hipStreamCreateWithFlags, &stream.value, stream_non_blocking);
  return stream;
}

EventHandle HipDriver::create_event() {
  EventHandle event;
  act(api_.hipEventCreateWithFlags, &event.value, 0U);
  return event;
}

bool HipDriver::finished(EventHandle event) {
  const DeviceScope scope(api_, info_.index);
  const int code = api_.hipEventQuery(event.value);
  if (code != 0 && code != error_not_ready) {
    throw Error(fmt::format("hipEventQuery: {}", api_.describe(code)));
  }
  return code == 0;
}

double HipDriver::elapsed_seconds(EventHandle from, EventHandle to) {
  float milliseconds = 0.0F;
  act(api_.hipEventElapsedTime, &milliseconds, from.value, to.value);
  return static_cast<double>(milliseconds) * 1e-3;
}

GraphHandle HipDriver::end_capture(StreamHandle stream) {
  void* recorded = nullptr;
  act(api_.hipStreamEndCapture, stream.value, &recorded);
  GraphHandle graph;
  const DeviceScope scope(api_, info_.index);
  const int code = api_.hipGraphInstantiate(&graph.value, recorded, 0ULL);
  api_.hipGraphDestroy(recorded);
  if (code != 0) {
    throw Error(fmt::format("{}: {}", api_.hipGraphInstantiate.name(), api_.describe(code)));
  }
  return graph;
}

ModuleHandle HipDriver::load_module(std::span<const std::byte> code_object, std::string_view label) {
  ModuleHandle module;
  try {
    act(api_.hipModuleLoadData, &module.value, static_cast<const void*>(code_object.data()));
  } catch (Error& error) {
    throw std::move(error).in(label);
  }
  return module;
}

void HipDriver::unload_module(ModuleHandle module) noexcept {
  functions_.remove_if([&](const LoadedFunction& function) { return function.module == module.value; });
  quietly(api_.hipModuleUnload, module.value);
}

FunctionHandle HipDriver::find_function(ModuleHandle module, const std::string& kernel) {
  LoadedFunction function;
  function.module = module.value;
  const DeviceScope scope(api_, info_.index);
  const int code = api_.hipModuleGetFunction(&function.handle, module.value, kernel.c_str());
  if (code == error_not_found) {
    return {};
  }
  if (code != 0) {
    throw Error(fmt::format("kernel {}: hipModuleGetFunction: {}", kernel, api_.describe(code)));
  }
  function.info = {.registers = function_attribute(function.handle, function_registers),
                   .static_shared_bytes = function_attribute(function.handle, function_shared_bytes),
                   .scratch_bytes = function_attribute(function.handle, function_local_bytes),
                   .max_threads = function_attribute(function.handle, function_max_threads)};
  return {&functions_.emplace_back(function)};
}

void HipDriver::do_launch(FunctionHandle handle, std::string_view /*kernel*/, const LaunchShape& shape,
                          std::span<const std::byte> args, StreamHandle stream) {
  const auto& function = *static_cast<const LoadedFunction*>(handle.value);
  check_launch(function, info_, shape, args.size());
  void* parameter = const_cast<std::byte*>(args.data());
  act(api_.hipModuleLaunchKernel, function.handle, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0],
      shape.block[1], shape.block[2], shape.shared_bytes, stream.value, &parameter, nullptr);
}

}  // namespace

void find_hip(RuntimeReport& report) {
  const HipApi api;
  report.library = api.library.path();
  report.version = version_text(api);
  const int count = initialize(api);
  for (int index = 0; index < count; ++index) {
    report.devices.push_back(device_info(api, index));
  }
}

std::unique_ptr<Driver> open_hip_driver(int index) { return std::make_unique<HipDriver>(index); }

}  // namespace rocmforge
