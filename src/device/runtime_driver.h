#pragma once

#include <fmt/format.h>

#include <functional>
#include <list>
#include <optional>
#include <string>

#include "device/device.h"
#include "device/runtime_library.h"

namespace rocmforge {

// Values of enums that both runtimes share, because HIP follows the CUDA driver.
constexpr int runtime_error_not_found = 500;
constexpr int runtime_error_not_ready = 600;
constexpr int function_max_threads = 0;
constexpr int function_shared_bytes = 1;
constexpr int function_local_bytes = 3;
constexpr int function_registers = 4;
constexpr unsigned pinned_portable = 1;
constexpr unsigned stream_non_blocking = 1;
constexpr int capture_thread_local = 1;

/// The number of devices. Throws Error when there is none.
template <class Api>
int count_devices(const Api& api) {
  const int code = api.init(0);
  int count = 0;
  if (code == 0) {
    call(api, api.device_count, &count);
  } else if (!Api::means_no_device(code)) {
    throw Error(fmt::format("{}: {}", api.init.name(), api.describe(code)));
  }
  if (count == 0) {
    throw Error(fmt::format("no device: {} says {}", api.init.name(), api.describe(code)));
  }
  return count;
}

template <class Api>
void find_devices(RuntimeReport& report) {
  const Api api;
  report.library = api.library.path();
  report.version = api.version();
  const int count = count_devices(api);
  for (int index = 0; index < count; ++index) {
    report.devices.push_back(api.device_info(index));
  }
}

/// The common part of both drivers. `Api` is CudaApi or HipApi. Each call is made in an Api::Scope, which makes the device
/// (HIP) or its context (CUDA) current.
template <class Api>
class RuntimeDriver : public Driver {
 public:
  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] std::string runtime() const override { return fmt::format("{} {}", Api::product, api_.version()); }
  [[nodiscard]] Memory memory() override {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    act(api_.memory_info, &free_bytes, &total_bytes);
    return {static_cast<std::int64_t>(free_bytes), static_cast<std::int64_t>(total_bytes)};
  }
  void with_device(const std::function<void()>& body) override {
    const Scope scope(api_, target_);
    body();
  }

  void free(void* pointer) noexcept override { quietly(api_.free, pointer); }
  void* allocate_pinned(std::size_t size_bytes) override {
    void* pointer = nullptr;
    act(api_.allocate_pinned, &pointer, size_bytes, pinned_portable);
    return pointer;
  }
  void free_pinned(void* pointer) noexcept override { quietly(api_.free_pinned, pointer); }

  StreamHandle create_stream() override {
    StreamHandle stream;
    act(api_.create_stream, &stream.value, stream_non_blocking);
    return stream;
  }
  void destroy_stream(StreamHandle stream) noexcept override { quietly(api_.destroy_stream, stream.value); }
  EventHandle create_event() override {
    EventHandle event;
    act(api_.create_event, &event.value, 0U);
    return event;
  }
  void destroy_event(EventHandle event) noexcept override { quietly(api_.destroy_event, event.value); }
  void record(EventHandle event, StreamHandle stream) override { act(api_.record_event, event.value, stream.value); }
  bool finished(EventHandle event) override {
    const Scope scope(api_, target_);
    const int code = api_.query_event(event.value);
    if (code != 0 && code != runtime_error_not_ready) {
      throw Error(fmt::format("{}: {}", api_.query_event.name(), api_.describe(code)));
    }
    return code == 0;
  }
  void wait(StreamHandle stream, EventHandle event) override { act(api_.wait_for_event, stream.value, event.value, 0U); }
  double elapsed_seconds(EventHandle from, EventHandle to) override {
    float milliseconds = 0.0F;
    act(api_.elapsed_time, &milliseconds, from.value, to.value);
    return static_cast<double>(milliseconds) * 1e-3;
  }

  // During a capture, calls of this thread that can't be recorded (allocations) fail; other threads are not affected.
  void begin_capture(StreamHandle stream) override { act(api_.begin_capture, stream.value, capture_thread_local); }
  GraphHandle end_capture(StreamHandle stream) override {
    const Scope scope(api_, target_);
    void* recorded = nullptr;
    call(api_, api_.end_capture, stream.value, &recorded);
    GraphHandle graph;
    const int code = api_.instantiate_graph(&graph.value, recorded, 0ULL);
    api_.destroy_graph(recorded);
    if (code != 0) {
      throw Error(fmt::format("{}: {}", api_.instantiate_graph.name(), api_.describe(code)));
    }
    return graph;
  }
  void destroy_graph(GraphHandle graph) noexcept override { quietly(api_.destroy_graph_exec, graph.value); }

  void unload_module(ModuleHandle module) noexcept override {
    functions_.remove_if([&](const LoadedFunction& function) { return function.module == module.value; });
    quietly(api_.unload_module, module.value);
  }
  FunctionHandle find_function(ModuleHandle module, const std::string& kernel) override {
    LoadedFunction function;
    function.module = module.value;
    const Scope scope(api_, target_);
    const int code = api_.module_function(&function.handle, module.value, kernel.c_str());
    if (code == runtime_error_not_found) {
      return {};
    }
    if (code != 0) {
      throw Error(fmt::format("kernel {}: {}: {}", kernel, api_.module_function.name(), api_.describe(code)));
    }
    function.info = {.registers = attribute_of(function.handle, function_registers),
                     .static_shared_bytes = attribute_of(function.handle, function_shared_bytes),
                     .scratch_bytes = attribute_of(function.handle, function_local_bytes),
                     .max_threads = attribute_of(function.handle, function_max_threads)};
    function.argument_bytes = argument_bytes(function.handle);
    return {&functions_.emplace_back(function)};
  }
  FunctionInfo function_info(FunctionHandle function) override { return static_cast<LoadedFunction*>(function.value)->info; }

 protected:
  using Scope = typename Api::Scope;

  /// Throws Error when there is no such device. The derived class must set target_.
  explicit RuntimeDriver(int index) {
    const int count = count_devices(api_);
    if (index < 0 || index >= count) {
      throw Error(fmt::format("there is no device {0}:{1}, only {2} of them from {0}:0", name(Api::kind), index, count));
    }
    info_ = api_.device_info(index);
  }

  template <class EntryType, class... Arguments>
  void act(const EntryType& entry, Arguments... arguments) const {
    const Scope scope(api_, target_);
    call(api_, entry, arguments...);
  }

  Api api_;
  DeviceInfo info_;
  typename Scope::Target target_{};  ///< the device or context that a scope makes current

 private:
  /// `parameter` is the address of the kernel's only parameter.
  virtual void launch_checked(LoadedFunction& function, const LaunchShape& shape, void* parameter, StreamHandle stream) = 0;
  /// The size of a kernel's only parameter, 0 when the runtime does not report it.
  [[nodiscard]] virtual std::size_t argument_bytes(void*) const { return 0; }

  void* do_allocate(std::size_t size_bytes) override {
    void* start = nullptr;
    act(api_.allocate, &start, size_bytes);
    return start;
  }
  void do_synchronize(StreamHandle stream) override { act(api_.synchronize_stream, stream.value); }
  void do_synchronize(EventHandle event) override { act(api_.synchronize_event, event.value); }
  void do_launch(GraphHandle graph, StreamHandle stream) override { act(api_.launch_graph, graph.value, stream.value); }
  void do_launch(FunctionHandle handle, std::string_view /*kernel*/, const LaunchShape& shape,
                 std::span<const std::byte> args, StreamHandle stream) override {
    auto& function = *static_cast<LoadedFunction*>(handle.value);
    check_launch(function, info_, shape, args.size());
    launch_checked(function, shape, const_cast<std::byte*>(args.data()), stream);
  }

  /// For destructors, which can't report an error. What can't be made current is tried all the same, as HIP frees objects of
  /// any device.
  template <class EntryType, class... Arguments>
  void quietly(const EntryType& entry, Arguments... arguments) const noexcept {
    std::optional<Scope> scope;
    try {
      scope.emplace(api_, target_);
    } catch (...) {
    }
    entry(arguments...);
  }
  [[nodiscard]] int attribute_of(void* function, int which) const {
    int value = -1;
    return api_.function_attribute(&value, which, function) == 0 ? value : -1;
  }

  std::list<LoadedFunction> functions_;  ///< handles point into it
};

}  // namespace rocmforge
