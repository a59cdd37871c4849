#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "device/device.h"
#include "ops/kernel_registry.h"

namespace rocmforge {

/// What a check is doing. The time of a call of the kernel under test is limited more strictly than the rest.
enum class CheckPhase { inputs, oracle, call, comparison, call_beside_load, timing };
std::string_view name(CheckPhase phase);
/// What each phase took.
using PhaseSeconds = std::array<double, 6>;

/// Work on a second stream of a GPU, which keeps its memory busy while a kernel runs. Nothing on a CPU.
class DeviceLoad {
 public:
  explicit DeviceLoad(Device& device);
  [[nodiscard]] bool exists() const { return stream_ != nullptr; }
  void start();
  void wait();

 private:
  std::unique_ptr<Stream> stream_;
  DeviceBuffer from_;
  DeviceBuffer to_;
};

/// Where kernels are checked: a device, the processor, and all kernels.
class CheckBench {
 public:
  /// `device`, `registry` and `pool` must outlive the bench.
  CheckBench(Device& device, const KernelRegistry& registry, ThreadPool& pool);
  CheckBench(const CheckBench&) = delete;
  CheckBench& operator=(const CheckBench&) = delete;

  [[nodiscard]] Device& device() { return *device_; }
  [[nodiscard]] Device& host() { return host_; }
  [[nodiscard]] ExecutionContext& context() { return context_; }
  [[nodiscard]] ExecutionContext& host_context() { return host_context_; }
  [[nodiscard]] const KernelRegistry& registry() const { return *registry_; }
  [[nodiscard]] DeviceLoad& load() { return load_; }

  /// Median seconds of a call: a few rounds of as many calls as a clock can measure.
  double seconds_of(const std::function<void()>& call);

  bool times_calls = true;  ///< each right kernel, after its calls were compared
  /// Called before each phase.
  std::function<void(CheckPhase)> on_phase = [](CheckPhase) {};

 private:
  Device* device_;
  Device host_;
  const KernelRegistry* registry_;
  ExecutionContext context_;
  ExecutionContext host_context_;
  DeviceLoad load_;
};

}  // namespace rocmforge
