#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"

namespace rocmforge {

/// A fake GPU with host memory. Copies and fills are done at once; launches are recorded. All objects are counted, so that a
/// test can detect leaks.
class FakeDriver final : public Driver {
 public:
  /// The records, which outlive the driver (a Device owns the driver).
  struct Log {
    std::vector<std::string> calls;
    std::vector<std::vector<std::byte>> arguments;     ///< of the launches
    std::vector<LaunchShape> shapes;                   ///< of the launches
    std::vector<std::string> kernels;                  ///< of the launches
    std::vector<void*> waited;                         ///< the streams that the host has waited for
    std::map<void*, std::span<const std::byte>> code;  ///< of the modules that are loaded
    bool code_was_there = true;                        ///< when its module was unloaded
    std::map<void*, std::size_t> memory;               ///< allocated now
    std::set<void*> streams, events, graphs, modules;
    std::size_t pinned = 0;
    int lookups = 0;                    ///< of functions
    std::string fail_on;                ///< the call that fails: "load b", "fill", "launch", "synchronize", "end_capture"
    std::int64_t free_bytes = 1 << 30;  ///< as memory() says
    bool capturing = false;
    bool unfinished = false;  ///< what finished() says of every event
    bool destroyed = false;

    [[nodiscard]] bool nothing_left() const {
      return memory.empty() && streams.empty() && events.empty() && graphs.empty() && modules.empty() && pinned == 0;
    }
  };

  /// "sm_90" makes it one of NVIDIA. `vendor_runtime`: whether the vendor's libraries may be used with it.
  explicit FakeDriver(std::shared_ptr<Log> log, std::string architecture = "gfx1100:xnack-", bool vendor_runtime = false)
      : log_(std::move(log)) {
    info_.kind = architecture.starts_with("sm_") ? DeviceKind::cuda : DeviceKind::hip;
    info_.vendor_runtime = vendor_runtime;
    info_.name = "Fake GPU";
    info_.architecture = std::move(architecture);
    info_.wave_size = 32;
    info_.shared_memory_bytes = 65536;
  }
  ~FakeDriver() override { log_->destroyed = true; }

  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] std::string runtime() const override { return "fake 1.0"; }
  [[nodiscard]] Memory memory() override { return {log_->free_bytes, std::int64_t{2} << 30}; }

  void free(void* address) noexcept override {
    log_->memory.erase(address);
    std::free(address);
  }
  void* allocate_pinned(std::size_t size_bytes) override {
    ++log_->pinned;
    return std::malloc(size_bytes);
  }
  void free_pinned(void* address) noexcept override {
    --log_->pinned;
    std::free(address);
  }

  StreamHandle create_stream() override { return {create(log_->streams)}; }
  void destroy_stream(StreamHandle stream) noexcept override { log_->streams.erase(stream.value); }
  EventHandle create_event() override { return {create(log_->events)}; }
  void destroy_event(EventHandle event) noexcept override { log_->events.erase(event.value); }
  void record(EventHandle, StreamHandle) override { act("record"); }
  bool finished(EventHandle) override { return !log_->unfinished; }
  void wait(StreamHandle, EventHandle) override { act("wait"); }
  double elapsed_seconds(EventHandle, EventHandle) override { return 0.25; }

  void begin_capture(StreamHandle) override {
    act("begin_capture");
    log_->capturing = true;
  }
  GraphHandle end_capture(StreamHandle) override {
    log_->capturing = false;
    act("end_capture");
    return {create(log_->graphs)};
  }
  void destroy_graph(GraphHandle graph) noexcept override {
    log_->calls.emplace_back("destroy_graph");
    log_->graphs.erase(graph.value);
  }

  ModuleHandle load_module(std::span<const std::byte> code, std::string_view label) override {
    act("load " + std::string(label));
    void* module = create(log_->modules);
    log_->code[module] = code;
    return {module};
  }
  void unload_module(ModuleHandle module) noexcept override {
    const auto code = log_->code.extract(module.value);
    log_->code_was_there = log_->code_was_there && is_mapped(code.mapped().data());
    log_->modules.erase(module.value);
  }
  FunctionHandle find_function(ModuleHandle, const std::string& kernel) override {
    ++log_->lookups;
    return {kernel == "absent" ? nullptr : &info_};
  }
  FunctionInfo function_info(FunctionHandle) override { return {.registers = 24}; }

 private:
  static bool is_mapped(const void* address) {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    return ::msync(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) / page * page), page, MS_ASYNC) == 0;
  }
  void* create(std::set<void*>& kind) {
    void* handle = reinterpret_cast<void*>(++last_handle_);
    kind.insert(handle);
    return handle;
  }
  void act(const std::string& call) {
    log_->calls.push_back(call);
    if (call == log_->fail_on) {
      throw Error("fake: refused");
    }
  }

  void* do_allocate(std::size_t size_bytes) override {
    act("allocate");
    void* memory = std::aligned_alloc(256, (size_bytes + 255) / 256 * 256);
    std::memset(memory, 0xAA, size_bytes);
    log_->memory[memory] = size_bytes;
    return memory;
  }
  void do_copy_to_device(void* to, const void* from, std::size_t size_bytes, StreamHandle) override {
    act("copy_to_device");
    std::memcpy(to, from, size_bytes);
  }
  void do_copy_to_host(void* to, const void* from, std::size_t size_bytes, StreamHandle) override {
    act("copy_to_host");
    std::memcpy(to, from, size_bytes);
  }
  void do_copy_on_device(void* to, const void* from, std::size_t size_bytes, StreamHandle) override {
    act("copy_on_device");
    std::memcpy(to, from, size_bytes);
  }
  void do_fill(void* to, std::uint8_t value, std::size_t size_bytes, StreamHandle) override {
    act("fill");
    std::memset(to, value, size_bytes);
  }
  void do_synchronize(StreamHandle stream) override {
    log_->waited.push_back(stream.value);
    act("synchronize");
  }
  void do_synchronize(EventHandle) override { act("synchronize"); }
  void do_launch(GraphHandle, StreamHandle) override { act("replay"); }
  void do_launch(FunctionHandle, std::string_view kernel, const LaunchShape& shape, std::span<const std::byte> args,
                 StreamHandle) override {
    act("launch");
    log_->kernels.emplace_back(kernel);
    log_->arguments.emplace_back(args.begin(), args.end());
    log_->shapes.push_back(shape);
  }

  std::shared_ptr<Log> log_;
  DeviceInfo info_;
  std::uintptr_t last_handle_ = 0;
};

}  // namespace rocmforge
