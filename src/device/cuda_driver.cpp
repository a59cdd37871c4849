#include <fmt/format.h>

#include <array>
#include <functional>
#include <list>

#include "device/cuda_api.h"
#include "device/runtimes.h"

namespace rocmforge {

std::string CudaApi::describe(int code) const {
  const char* name = nullptr;
  const char* text = nullptr;
  cuGetErrorName(code, &name);
  cuGetErrorString(code, &text);
  return name == nullptr ? fmt::format("error {}", code) : text == nullptr ? name : fmt::format("{} ({})", name, text);
}

namespace {

// Values of the driver's enums.
constexpr int error_no_device = 100;
constexpr int error_not_found = 500;
constexpr int error_not_ready = 600;
constexpr int attribute_warp_size = 10;
constexpr int attribute_multiprocessors = 16;
constexpr int attribute_l2_bytes = 38;
constexpr int attribute_major = 75;
constexpr int attribute_minor = 76;
constexpr int attribute_shared_bytes_optin = 97;
constexpr int function_max_threads = 0;
constexpr int function_shared_bytes = 1;
constexpr int function_local_bytes = 3;
constexpr int function_registers = 4;
constexpr int function_max_dynamic_shared_bytes = 8;
constexpr unsigned host_alloc_portable = 1;
constexpr unsigned stream_non_blocking = 1;
constexpr int capture_thread_local = 1;
constexpr int launch_programmatic_serialization = 6;
constexpr int jit_error_log = 5;
constexpr int jit_error_log_bytes = 6;

/// A work-group gets this much shared memory without asking.
constexpr std::int64_t shared_bytes_unasked = 48 << 10;

std::uint64_t address(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

int attribute(const CudaApi& api, int device, int which) {
  int value = 0;
  call(api, api.cuDeviceGetAttribute, &value, which, device);
  return value;
}

DeviceInfo device_info(const CudaApi& api, int index) {
  int device = 0;
  call(api, api.cuDeviceGet, &device, index);
  std::array<char, 256> name{};
  call(api, api.cuDeviceGetName, name.data(), static_cast<int>(name.size()) - 1, device);
  std::size_t memory_bytes = 0;
  call(api, api.cuDeviceTotalMem, &memory_bytes, device);

  DeviceInfo info;
  info.kind = DeviceKind::cuda;
  info.vendor_runtime = true;
  info.index = index;
  info.name = name.data();
  info.architecture =
      fmt::format("sm_{}{}", attribute(api, device, attribute_major), attribute(api, device, attribute_minor));
  info.compute_units = attribute(api, device, attribute_multiprocessors);
  info.memory_bytes = static_cast<std::int64_t>(memory_bytes);
  info.wave_size = attribute(api, device, attribute_warp_size);
  info.shared_memory_bytes = attribute(api, device, attribute_shared_bytes_optin);
  info.l2_bytes = attribute(api, device, attribute_l2_bytes);
  return info;
}

std::string version_text(const CudaApi& api) {
  int version = 0;
  call(api, api.cuDriverGetVersion, &version);
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// The number of devices. Throws Error when there is none.
int initialize(const CudaApi& api) {
  const int code = api.cuInit(0);
  int count = 0;
  if (code == 0) {
    call(api, api.cuDeviceGetCount, &count);
  } else if (code != error_no_device) {
    throw Error(fmt::format("cuInit: {}", api.describe(code)));
  }
  if (count == 0) {
    throw Error(fmt::format("no device: cuInit says {}", api.describe(code)));
  }
  return count;
}

/// Makes a context the calling thread's own, and gives a thread that uses another one that one back.
class ContextScope {
 public:
  ContextScope(const CudaApi& api, void* context) : api_(&api) {
    call(api, api.cuCtxGetCurrent, &before_);
    if (before_ != context) {
      call(api, api.cuCtxSetCurrent, context);
      restore_ = before_ != nullptr;
    }
  }
  ~ContextScope() {
    if (restore_) {
      api_->cuCtxSetCurrent(before_);
    }
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const CudaApi* api_;
  void* before_ = nullptr;
  bool restore_ = false;
};

class CudaDriver final : public Driver {
 public:
  explicit CudaDriver(int index);
  ~CudaDriver() override { api_.cuDevicePrimaryCtxRelease(device_); }

  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] std::string runtime() const override { return "CUDA driver " + version_text(api_); }
  [[nodiscard]] Memory memory() override;
  void with_device(const std::function<void()>& act) override {
    const ContextScope scope(api_, context_);
    act();
  }

  void free(void* pointer) noexcept override { quietly(api_.cuMemFree, address(pointer)); }
  void* allocate_pinned(std::size_t size_bytes) override;
  void free_pinned(void* pointer) noexcept override { quietly(api_.cuMemFreeHost, pointer); }

  StreamHandle create_stream() override;
  void destroy_stream(StreamHandle stream) noexcept override { quietly(api_.cuStreamDestroy, stream.value); }
  EventHandle create_event() override;
  void destroy_event(EventHandle event) noexcept override { quietly(api_.cuEventDestroy, event.value); }
  void record(EventHandle event, StreamHandle stream) override { act(api_.cuEventRecord, event.value, stream.value); }
  bool finished(EventHandle event) override;
  void wait(StreamHandle stream, EventHandle event) override { act(api_.cuStreamWaitEvent, stream.value, event.value, 0U); }
  double elapsed_seconds(EventHandle from, EventHandle to) override;

  // Calls of this thread that a recording cannot hold, such as allocations, then fail; other threads are free.
  void begin_capture(StreamHandle stream) override { act(api_.cuStreamBeginCapture, stream.value, capture_thread_local); }
  GraphHandle end_capture(StreamHandle stream) override;
  void destroy_graph(GraphHandle graph) noexcept override { quietly(api_.cuGraphExecDestroy, graph.value); }

  ModuleHandle load_module(std::span<const std::byte> code_object, std::string_view label) override;
  void unload_module(ModuleHandle module) noexcept override;
  FunctionHandle find_function(ModuleHandle module, const std::string& kernel) override;
  FunctionInfo function_info(FunctionHandle function) override { return static_cast<LoadedFunction*>(function.value)->info; }
  [[nodiscard]] TensorMap tensor_map(const TensorBoxes& boxes) override;

 private:
  void* do_allocate(std::size_t size_bytes) override;
  void do_copy_to_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) override {
    act(api_.cuMemcpyHtoDAsync, address(to), from, size_bytes, stream.value);
  }
  void do_copy_to_host(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) override {
    act(api_.cuMemcpyDtoHAsync, to, address(from), size_bytes, stream.value);
  }
  void do_copy_on_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) override {
    act(api_.cuMemcpyDtoDAsync, address(to), address(from), size_bytes, stream.value);
  }
  void do_fill(void* to, std::uint8_t value, std::size_t size_bytes, StreamHandle stream) override {
    act(api_.cuMemsetD8Async, address(to), value, size_bytes, stream.value);
  }
  void do_synchronize(StreamHandle stream) override { act(api_.cuStreamSynchronize, stream.value); }
  void do_synchronize(EventHandle event) override { act(api_.cuEventSynchronize, event.value); }
  void do_launch(GraphHandle graph, StreamHandle stream) override { act(api_.cuGraphLaunch, graph.value, stream.value); }
  void do_launch(FunctionHandle handle, std::string_view kernel, const LaunchShape& shape, std::span<const std::byte> args,
                 StreamHandle stream) override;

  template <class EntryType, class... Arguments>
  void act(const EntryType& entry, Arguments... arguments) const {
    const ContextScope scope(api_, context_);
    call(api_, entry, arguments...);
  }
  /// For destructors: there is nobody to tell.
  template <class EntryType, class... Arguments>
  void quietly(const EntryType& entry, Arguments... arguments) const noexcept {
    try {
      const ContextScope scope(api_, context_);
      entry(arguments...);
    } catch (...) {
    }
  }
  [[nodiscard]] int function_attribute(void* function, int which) const {
    int value = -1;
    act(api_.cuFuncGetAttribute, &value, which, function);
    return value;
  }

  CudaApi api_;
  DeviceInfo info_;
  int device_ = 0;
  void* context_ = nullptr;
  bool overlaps_ = false;                ///< kernels can start before their predecessors end: from compute capability 9.0 on
  std::list<LoadedFunction> functions_;  ///< handles point into it
};

CudaDriver::CudaDriver(int index) {
  const int count = initialize(api_);
  if (index < 0 || index >= count) {
    throw Error(fmt::format("there is no device cuda:{}, only {} of them from cuda:0", index, count));
  }
  info_ = device_info(api_, index);
  call(api_, api_.cuDeviceGet, &device_, index);
  call(api_, api_.cuDevicePrimaryCtxRetain, &context_, device_);
  overlaps_ = attribute(api_, device_, attribute_major) >= 9 && static_cast<bool>(api_.cuLaunchKernelEx);
}

TensorMap CudaDriver::tensor_map(const TensorBoxes& boxes) {
  constexpr int uint16 = 1;  // the copy engine moves bits
  constexpr int no_interleave = 0;
  constexpr int swizzle_128 = 3;
  const int promotion = boxes.streamed ? 0 : 3;  // none, 256 bytes
  constexpr int zeros_outside = 0;
  if (!api_.cuTensorMapEncodeTiled) {
    return Driver::tensor_map(boxes);
  }
  TensorMap map;
  const std::array<unsigned, 4> steps{1, 1, 1, 1};
  call(api_, api_.cuTensorMapEncodeTiled, static_cast<void*>(&map), uint16, 4U, const_cast<void*>(boxes.address),
       boxes.size.data(), boxes.stride_bytes.data(), boxes.box.data(), steps.data(), no_interleave, swizzle_128, promotion,
       zeros_outside);
  return map;
}

Driver::Memory CudaDriver::memory() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  act(api_.cuMemGetInfo, &free_bytes, &total_bytes);
  return {static_cast<std::int64_t>(free_bytes), static_cast<std::int64_t>(total_bytes)};
}

void* CudaDriver::do_allocate(std::size_t size_bytes) {
  std::uint64_t start = 0;
  act(api_.cuMemAlloc, &start, size_bytes);
  return reinterpret_cast<void*>(start);
}

void* CudaDriver::allocate_pinned(std::size_t size_bytes) {
  void* pointer = nullptr;
  act(api_.cuMemHostAlloc, &pointer, size_bytes, host_alloc_portable);
  return pointer;
}

StreamHandle CudaDriver::create_stream() {
  StreamHandle stream;
  act(api_.cuStreamCreate, &stream.value, stream_non_blocking);
  return stream;
}

EventHandle CudaDriver::create_event() {
  EventHandle event;
  act(api_.cuEventCreate, &event.value, 0U);
  return event;
}

bool CudaDriver::finished(EventHandle event) {
  const ContextScope scope(api_, context_);
  const int code = api_.cuEventQuery(event.value);
  if (code != 0 && code != error_not_ready) {
    throw Error(fmt::format("cuEventQuery: {}", api_.describe(code)));
  }
  return code == 0;
}

double CudaDriver::elapsed_seconds(EventHandle from, EventHandle to) {
  float milliseconds = 0.0F;
  act(api_.cuEventElapsedTime, &milliseconds, from.value, to.value);
  return static_cast<double>(milliseconds) * 1e-3;
}

GraphHandle CudaDriver::end_capture(StreamHandle stream) {
  void* recorded = nullptr;
  act(api_.cuStreamEndCapture, stream.value, &recorded);
  GraphHandle graph;
  const ContextScope scope(api_, context_);
  const int code = api_.cuGraphInstantiate(&graph.value, recorded, 0ULL);
  api_.cuGraphDestroy(recorded);
  if (code != 0) {
    throw Error(fmt::format("{}: {}", api_.cuGraphInstantiate.name(), api_.describe(code)));
  }
  return graph;
}

ModuleHandle CudaDriver::load_module(std::span<const std::byte> code_object, std::string_view label) {
  std::array<char, 4096> log{};
  std::array options{jit_error_log, jit_error_log_bytes};
  std::array values{static_cast<void*>(log.data()), reinterpret_cast<void*>(log.size() - 1)};
  ModuleHandle module;
  const ContextScope scope(api_, context_);
  const int code = api_.cuModuleLoadDataEx(&module.value, code_object.data(), static_cast<unsigned>(options.size()),
                                           options.data(), values.data());
  if (code != 0) {
    const std::string_view words = log.data();
    throw Error(fmt::format("{}: cuModuleLoadDataEx: {}{}{}", label, api_.describe(code), words.empty() ? "" : ": ", words));
  }
  return module;
}

void CudaDriver::unload_module(ModuleHandle module) noexcept {
  functions_.remove_if([&](const LoadedFunction& function) { return function.module == module.value; });
  quietly(api_.cuModuleUnload, module.value);
}

FunctionHandle CudaDriver::find_function(ModuleHandle module, const std::string& kernel) {
  LoadedFunction function;
  function.module = module.value;
  const ContextScope scope(api_, context_);
  const int code = api_.cuModuleGetFunction(&function.handle, module.value, kernel.c_str());
  if (code == error_not_found) {
    return {};
  }
  if (code != 0) {
    throw Error(fmt::format("kernel {}: cuModuleGetFunction: {}", kernel, api_.describe(code)));
  }
  function.info = {.registers = function_attribute(function.handle, function_registers),
                   .static_shared_bytes = function_attribute(function.handle, function_shared_bytes),
                   .scratch_bytes = function_attribute(function.handle, function_local_bytes),
                   .max_threads = function_attribute(function.handle, function_max_threads)};
  std::size_t offset = 0;
  if (api_.cuFuncGetParamInfo) {
    call(api_, api_.cuFuncGetParamInfo, function.handle, std::size_t{0}, &offset, &function.argument_bytes);
  }
  return {&functions_.emplace_back(function)};
}

void CudaDriver::do_launch(FunctionHandle handle, std::string_view /*kernel*/, const LaunchShape& shape,
                           std::span<const std::byte> args, StreamHandle stream) {
  auto& function = *static_cast<LoadedFunction*>(handle.value);
  check_launch(function, info_, shape, args.size());
  const ContextScope scope(api_, context_);
  if (function.info.static_shared_bytes + shape.shared_bytes > shared_bytes_unasked &&
      shape.shared_bytes > function.dynamic_bytes) {
    call(api_, api_.cuFuncSetAttribute, function.handle, function_max_dynamic_shared_bytes,
         static_cast<int>(shape.shared_bytes));
    function.dynamic_bytes = shape.shared_bytes;
  }
  void* parameter = const_cast<std::byte*>(args.data());
  if (shape.dependent && overlaps_) {
    CudaApi::LaunchAttribute attribute{launch_programmatic_serialization, {std::byte{1}}};
    const CudaApi::LaunchConfig config{shape.grid, shape.block, shape.shared_bytes, stream.value, &attribute, 1};
    call(api_, api_.cuLaunchKernelEx, &config, function.handle, &parameter, static_cast<void**>(nullptr));
    return;
  }
  call(api_, api_.cuLaunchKernel, function.handle, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0],
       shape.block[1], shape.block[2], shape.shared_bytes, stream.value, &parameter, nullptr);
}

}  // namespace

void find_cuda(RuntimeReport& report) {
  const CudaApi api;
  report.library = api.library.path();
  report.version = version_text(api);
  const int count = initialize(api);
  for (int index = 0; index < count; ++index) {
    report.devices.push_back(device_info(api, index));
  }
}

std::unique_ptr<Driver> open_cuda_driver(int index) { return std::make_unique<CudaDriver>(index); }

}  // namespace rocmforge
