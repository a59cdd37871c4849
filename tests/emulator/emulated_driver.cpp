#include "emulator/emulated_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <list>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/runtime_library.h"
#include "emulator/emulated_memory.h"
#include "emulator/emulator_worker.h"

namespace rocmforge {

namespace {

using Clock = std::chrono::steady_clock;
using Request = EmulatorWorker::Request;

constexpr std::int64_t shared_bytes_of_a_group = 65536;
/// Few compute units, so that kernels that distribute work over them have few work-groups. ROCMFORGE_EMULATED_UNITS sets
/// another number.
int compute_units() {
  constexpr int few = 2;
  const char* const units = std::getenv("ROCMFORGE_EMULATED_UNITS");
  return units != nullptr ? std::max(std::atoi(units), 1) : few;
}

struct Stream {
  bool recording = false;
  std::vector<std::function<void()>> recorded;
};

struct Event {
  std::optional<Clock::time_point> moment;
};

struct Graph {
  std::vector<std::function<void()>> work;
};

struct Function {
  std::string name;
  std::uint32_t module;
  FunctionInfo info;
};

struct Module {
  std::uint32_t number;
  std::list<Function> functions;  ///< handles point into it
};

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const std::byte* first = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof(T));
}

DeviceInfo device_info(std::string architecture, std::size_t index) {
  DeviceInfo info;
  info.index = static_cast<int>(index);
  info.kind = DeviceKind::hip;
  info.name = "emulated " + architecture;
  info.wave_size = architecture.starts_with("gfx9") ? 64 : 32;
  info.architecture = std::move(architecture);
  info.compute_units = compute_units();
  info.memory_bytes = std::int64_t{EmulatedMemory::total_bytes};
  info.shared_memory_bytes = shared_bytes_of_a_group;
  info.l2_bytes = std::int64_t{4} << 20;
  return info;
}

class EmulatedDriver final : public Driver {
 public:
  EmulatedDriver(std::string architecture, std::shared_ptr<const EmulatedFile> file, std::size_t index)
      : info_(device_info(std::move(architecture), index)),
        memory_(std::move(file), index),
        worker_(info_.architecture, memory_.file().file(), memory_.file().address(), memory_.file().size_bytes()) {}
  /// Lets kernels and copies of this GPU access all memory of another one.
  void allow_all_of(const EmulatedDriver& other) {
    ask_about(Request::allow, {other.memory_.begin(), EmulatedMemory::total_bytes});
    peers_.push_back(other.memory_.begin());
  }

  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] std::string runtime() const override { return "tinygrad's emulator"; }
  [[nodiscard]] Memory memory() override {
    return {static_cast<std::int64_t>(memory_.free_bytes()), std::int64_t{EmulatedMemory::total_bytes}};
  }

  void free(void* address) noexcept override;
  void* allocate_pinned(std::size_t size_bytes) override { return std::malloc(size_bytes); }
  void free_pinned(void* address) noexcept override { std::free(address); }

  StreamHandle create_stream() override { return {new Stream}; }
  void destroy_stream(StreamHandle stream) noexcept override { delete static_cast<Stream*>(stream.value); }
  EventHandle create_event() override { return {new Event}; }
  void destroy_event(EventHandle event) noexcept override { delete static_cast<Event*>(event.value); }
  void record(EventHandle event, StreamHandle stream) override {
    act(stream, [moment = &static_cast<Event*>(event.value)->moment] { *moment = Clock::now(); });
  }
  bool finished(EventHandle /*event*/) override { return true; }
  void wait(StreamHandle /*stream*/, EventHandle /*event*/) override {}
  double elapsed_seconds(EventHandle from, EventHandle to) override;

  void begin_capture(StreamHandle stream) override;
  GraphHandle end_capture(StreamHandle stream) override;
  void destroy_graph(GraphHandle graph) noexcept override { delete static_cast<Graph*>(graph.value); }

  ModuleHandle load_module(std::span<const std::byte> code_object, std::string_view label) override;
  void unload_module(ModuleHandle module) noexcept override;
  FunctionHandle find_function(ModuleHandle module, const std::string& kernel) override;
  FunctionInfo function_info(FunctionHandle function) override { return static_cast<Function*>(function.value)->info; }

 private:
  void* do_allocate(std::size_t size_bytes) override;
  void do_copy_to_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) override;
  void do_copy_to_host(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) override;
  void do_copy_on_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) override;
  void do_fill(void* to, std::uint8_t value, std::size_t size_bytes, StreamHandle stream) override;
  void do_synchronize(StreamHandle stream) override;
  void do_synchronize(EventHandle /*event*/) override {}
  void do_launch(GraphHandle graph, StreamHandle stream) override;
  void do_launch(FunctionHandle function, std::string_view kernel, const LaunchShape& shape, std::span<const std::byte> args,
                 StreamHandle stream) override;

  Stream& stream_of(StreamHandle stream) {
    return stream.value == nullptr ? default_stream_ : *static_cast<Stream*>(stream.value);
  }

  /// Does the work, or records it.
  template <class Work>
  void act(StreamHandle stream, Work&& work) {
    if (Stream& target = stream_of(stream); target.recording) {
      target.recorded.emplace_back(std::forward<Work>(work));
    } else {
      work();
    }
  }

  void require(const void* start, std::size_t size_bytes) const {
    if (!memory_.contains(start, size_bytes)) {
      throw Error(fmt::format("{} is not the device address of so many bytes", fmt::ptr(start)));
    }
  }

  /// The same, or memory of another GPU.
  void require_reachable(const void* start, std::size_t size_bytes) const {
    const auto from = reinterpret_cast<std::uintptr_t>(start);
    const auto has_it = [&](std::uintptr_t begin) {
      return from >= begin && from + size_bytes <= begin + EmulatedMemory::total_bytes;
    };
    if (std::ranges::none_of(peers_, has_it)) {
      require(start, size_bytes);
    }
  }

  std::vector<std::byte> ask_about(Request request, const EmulatedMemory::Pages& pages) {
    const std::array<std::uint64_t, 2> payload{pages.address, pages.size_bytes};
    return worker_.ask(request, std::as_bytes(std::span(payload)));
  }

  DeviceInfo info_;
  EmulatedMemory memory_;
  EmulatorWorker worker_;
  std::vector<std::uintptr_t> peers_;  ///< where the memory of other GPUs begins that this one may access
  Stream default_stream_;
  int recording_streams_ = 0;
};

void* EmulatedDriver::do_allocate(std::size_t size_bytes) {
  if (recording_streams_ > 0) {
    throw Error("memory is not allocated while a stream records");
  }
  const EmulatedMemory::Allocation allocation = memory_.allocate(size_bytes);
  try {
    ask_about(Request::allow, allocation.pages);
  } catch (...) {
    memory_.free(allocation.start);
    throw;
  }
  return allocation.start;
}

void EmulatedDriver::free(void* address) noexcept {
  const EmulatedMemory::Pages pages = memory_.free(address);
  try {
    if (pages.size_bytes > 0) {
      ask_about(Request::forbid, pages);
    }
  } catch (...) {  // the worker has ended; the next call that may throw tells
  }
}

void EmulatedDriver::do_copy_to_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) {
  require(to, size_bytes);
  act(stream, [=] { std::memcpy(to, from, size_bytes); });
}

void EmulatedDriver::do_copy_to_host(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) {
  require(from, size_bytes);
  act(stream, [=] { std::memcpy(to, from, size_bytes); });
}

void EmulatedDriver::do_copy_on_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) {
  require_reachable(to, size_bytes);
  require_reachable(from, size_bytes);
  act(stream, [=] { std::memmove(to, from, size_bytes); });
}

void EmulatedDriver::do_fill(void* to, std::uint8_t value, std::size_t size_bytes, StreamHandle stream) {
  require(to, size_bytes);
  act(stream, [=] { std::memset(to, value, size_bytes); });
}

void EmulatedDriver::do_synchronize(StreamHandle stream) {
  if (stream_of(stream).recording) {
    throw Error("a stream that records cannot be waited for");
  }
}

double EmulatedDriver::elapsed_seconds(EventHandle from, EventHandle to) {
  const auto& start = static_cast<Event*>(from.value)->moment;
  const auto& end = static_cast<Event*>(to.value)->moment;
  if (!start || !end) {
    throw Error("an event was never recorded");
  }
  return std::chrono::duration<double>(*end - *start).count();
}

void EmulatedDriver::begin_capture(StreamHandle stream) {
  if (stream_of(stream).recording) {
    throw Error("the stream records already");
  }
  stream_of(stream).recording = true;
  ++recording_streams_;
}

GraphHandle EmulatedDriver::end_capture(StreamHandle stream) {
  Stream& target = stream_of(stream);
  if (!target.recording) {
    throw Error("the stream doesn't record");
  }
  target.recording = false;
  --recording_streams_;
  return {new Graph{std::exchange(target.recorded, {})}};
}

void EmulatedDriver::do_launch(GraphHandle graph, StreamHandle stream) {
  act(stream, [work = static_cast<const Graph*>(graph.value)->work] {
    for (const auto& step : work) {
      step();
    }
  });
}

ModuleHandle EmulatedDriver::load_module(std::span<const std::byte> code_object, std::string_view label) {
  const std::vector<std::byte> answer = with_context(label, [&] { return worker_.ask(Request::load, code_object); });
  auto module = std::make_unique<Module>();
  std::memcpy(&module->number, answer.data(), sizeof(module->number));
  std::istringstream lines(std::string(reinterpret_cast<const char*>(answer.data()) + sizeof(module->number),
                                       answer.size() - sizeof(module->number)));
  Function function{{}, module->number, {}};
  FunctionInfo& info = function.info;
  while (lines >> function.name >> info.registers >> info.static_shared_bytes >> info.scratch_bytes >> info.max_threads) {
    module->functions.push_back(function);
  }
  return {module.release()};
}

void EmulatedDriver::unload_module(ModuleHandle module) noexcept {
  const std::unique_ptr<Module> owned(static_cast<Module*>(module.value));
  try {
    worker_.ask(Request::unload, std::as_bytes(std::span(&owned->number, 1)));
  } catch (...) {  // the worker has ended; the next call that may throw tells
  }
}

FunctionHandle EmulatedDriver::find_function(ModuleHandle module, const std::string& kernel) {
  for (Function& function : static_cast<Module*>(module.value)->functions) {
    if (function.name == kernel) {
      return {&function};
    }
  }
  return {};
}

void EmulatedDriver::do_launch(FunctionHandle handle, std::string_view /*kernel*/, const LaunchShape& shape,
                               std::span<const std::byte> args, StreamHandle stream) {
  const auto& function = *static_cast<const Function*>(handle.value);
  LoadedFunction loaded;
  loaded.info = function.info;
  check_launch(loaded, info_, shape, args.size());
  std::vector<std::byte> payload;
  append(payload, function.module);
  append(payload, shape.grid);
  append(payload, shape.block);
  append(payload, shape.shared_bytes);
  append(payload, static_cast<std::uint32_t>(function.name.size()));
  const auto name = std::as_bytes(std::span(function.name));
  payload.insert(payload.end(), name.begin(), name.end());
  payload.insert(payload.end(), args.begin(), args.end());
  if (stream_of(stream).recording) {
    stream_of(stream).recorded.emplace_back([this, payload = std::move(payload), shape, name = function.name] {
      with_context(fmt::format("kernel {} ({})", name, to_string(shape)), [&] { worker_.ask(Request::launch, payload); });
    });
  } else {
    worker_.ask(Request::launch, payload);
  }
}

}  // namespace

std::unique_ptr<Driver> open_emulated_driver(std::string architecture) {
  return std::move(open_emulated_drivers(architecture, 1).front());
}

std::vector<std::unique_ptr<Driver>> open_emulated_drivers(const std::string& architecture, std::size_t count) {
  const auto file = std::make_shared<const EmulatedFile>(count * EmulatedMemory::total_bytes);
  std::vector<std::unique_ptr<EmulatedDriver>> drivers;
  for (std::size_t index = 0; index < count; ++index) {
    drivers.push_back(std::make_unique<EmulatedDriver>(architecture, file, index));
  }
  for (const auto& driver : drivers) {
    for (const auto& other : drivers) {
      if (driver != other) {
        driver->allow_all_of(*other);
      }
    }
  }
  return {std::make_move_iterator(drivers.begin()), std::make_move_iterator(drivers.end())};
}

}  // namespace rocmforge
