#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"

namespace rocmforge {

/// A fake GPU with host memory. Copies and fills are done at once, copies to the device on request only when the host waits
/// for them; launches are recorded. All objects are counted, so that a test can detect leaks.
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
    std::map<const std::byte*, std::size_t> pinned;  ///< allocated now
    std::size_t most_pinned_bytes = 0;               ///< at one time
    std::vector<std::size_t> copied_bytes;           ///< of each copy to the device
    int unpinned_copies = 0;                         ///< to the device, from memory that is not pinned
    int lookups = 0;                                 ///< of functions
    std::string fail_on;                ///< the call that fails: "load b", "fill", "launch", "synchronize", "end_capture"
    std::size_t fail_at = 0;            ///< the number of the call that fails, 0: none
    bool late_copies = false;           ///< copies to the device wait for synchronize()
    std::int64_t free_bytes = 1 << 30;  ///< as memory() says
    bool capturing = false;
    bool unfinished = false;  ///< what finished() says of every event
    bool destroyed = false;

    [[nodiscard]] bool nothing_left() const {
      return memory.empty() && streams.empty() && events.empty() && graphs.empty() && modules.empty() && pinned.empty();
    }
  };

  /// "sm_90" makes it one of NVIDIA. `vendor_runtime`: whether the vendor's libraries may be used with it.
  explicit FakeDriver(std::shared_ptr<Log> log, std::string architecture = "gfx1100:xnack-", bool vendor_runtime = false,
                      int wave_size = 32, int compute_units = 1)
      : log_(std::move(log)) {
    info_.kind = architecture.starts_with("sm_") ? DeviceKind::cuda : DeviceKind::hip;
    info_.vendor_runtime = vendor_runtime;
    info_.name = "Fake GPU";
    info_.architecture = std::move(architecture);
    info_.wave_size = wave_size;
    info_.compute_units = compute_units;
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
    act("allocate_pinned");
    auto* memory = static_cast<std::byte*>(std::malloc(size_bytes));
    log_->pinned[memory] = size_bytes;
    std::size_t total = 0;
    for (const auto& [start, bytes] : log_->pinned) {
      total += bytes;
    }
    log_->most_pinned_bytes = std::max(log_->most_pinned_bytes, total);
    return memory;
  }
  void free_pinned(void* address) noexcept override {
    log_->pinned.erase(static_cast<std::byte*>(address));
    std::free(address);
  }

  StreamHandle create_stream() override { return {create(log_->streams)}; }
  void destroy_stream(StreamHandle stream) noexcept override { log_->streams.erase(stream.value); }
  EventHandle create_event() override {
    act("create_event");
    return {create(log_->events)};
  }
  void destroy_event(EventHandle event) noexcept override { log_->events.erase(event.value); }
  void record(EventHandle event, StreamHandle) override {
    act("record");
    recorded_[event.value] = made_ + late_.size();
  }
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
  /// Of NVIDIA's devices: a map that nothing reads.
  [[nodiscard]] TensorMap tensor_map(const TensorBoxes& boxes) override {
    return info_.kind == DeviceKind::cuda ? TensorMap{} : Driver::tensor_map(boxes);
  }

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
  [[nodiscard]] bool is_pinned(const std::byte* address, std::size_t size_bytes) const {
    const auto next = log_->pinned.upper_bound(address);
    return next != log_->pinned.begin() && address + size_bytes <= std::prev(next)->first + std::prev(next)->second;
  }
  /// Until `count` copies have been made since the start.
  void make_copies(std::size_t count) {
    for (; made_ < count; ++made_, late_.pop_front()) {
      std::memcpy(late_.front().to, late_.front().from, late_.front().size_bytes);
    }
  }
  void act(const std::string& call) {
    log_->calls.push_back(call);
    if (call == log_->fail_on || log_->calls.size() == log_->fail_at) {
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
    log_->copied_bytes.push_back(size_bytes);
    log_->unpinned_copies += is_pinned(static_cast<const std::byte*>(from), size_bytes) ? 0 : 1;
    late_.push_back({to, from, size_bytes});
    if (!log_->late_copies) {
      make_copies(made_ + 1);
    }
  }
  void do_copy_to_host(void* to, const void* from, std::size_t size_bytes, StreamHandle) override {
    act("copy_to_host");
    make_copies(made_ + late_.size());
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
    make_copies(made_ + late_.size());
  }
  void do_synchronize(EventHandle event) override {
    act("synchronize");
    make_copies(recorded_[event.value]);
  }
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
  struct Copy {
    void* to;
    const void* from;
    std::size_t size_bytes;
  };
  std::deque<Copy> late_;                  ///< to the device, not made yet
  std::size_t made_ = 0;                   ///< copies to the device
  std::map<void*, std::size_t> recorded_;  ///< events with the number of copies before them
};

}  // namespace rocmforge
