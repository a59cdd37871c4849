#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "checks/difference.h"
#include "conformance/arena.h"
#include "conformance/inputs.h"
#include "kernels/register_all.h"
#include "test_device.h"

// The suite walks the registry and runs every kernel of one device, the CPU unless ROCMFORGE_TEST_DEVICE names another (see
// test_device.h). The reference always runs on the CPU, in double.
//
// Names say where a test runs: those with "Tiny" everywhere, an emulated GPU included; those with "Huge" on a real GPU
// alone; the others on the CPU and on real GPUs.

namespace rocmforge::test {

/// What every test of the suite runs on: all registered kernels, the device under test, and the processor.
class Harness {
 public:
  Harness();
  Harness(const Harness&) = delete;
  Harness& operator=(const Harness&) = delete;

 private:
  TestDevice test_device_;
  Device cpu_;

 public:
  KernelRegistry registry;
  DeviceInfo device;  ///< under test
  ThreadPool pool;
  Place host;                ///< the CPU
  Place target;              ///< the device under test, which may be the CPU too
  ExecutionContext context;  ///< of the device under test

  [[nodiscard]] bool is_gpu() const { return device.is_gpu(); }
  [[nodiscard]] bool is_emulated() const { return test_device_.emulated; }
  [[nodiscard]] const TestDevice& test_device() const { return test_device_; }

  template <class Kernel>
  [[nodiscard]] Place& place_of(const Kernel& kernel) {
    return kernel.device() == DeviceKind::cpu ? host : target;
  }

  /// A size for an emulated GPU, and one for everything that is fast.
  template <class T>
  [[nodiscard]] T size(T full, T emulated) const {
    return is_emulated() ? emulated : full;
  }

  template <class Op>
  using Kernel = typename KernelInterfaceOf<Op>::type;

  template <class Op>
  const Kernel<Op>& reference(const typename Op::Spec& spec) {
    return *registry.choose<Op>(spec, cpu_.info(), "reference").kernel;
  }

  /// Whether a kernel of the device under test that models can use supports `spec`.
  template <class Op>
  [[nodiscard]] bool serves(const typename Op::Spec& spec) const {
    for (const auto& kernel : registry.all<Op>()) {
      if (kernel->device() == device.kind && !is_oracle(kernel->priority()) && kernel->supports(spec, device).ok) {
        return true;
      }
    }
    return false;
  }

  /// Calls test(kernel) for every kernel of the device under test but the reference that supports `spec`; there must be one.
  template <class Op, class Test>
  void for_each_kernel(const typename Op::Spec& spec, const Test& test) {
    EXPECT_GT(run_kernels<Op>(spec, test, false), 0)
        << "no kernel but the reference serves " << Op::name << " " << to_string(spec);
  }

  /// The same for an operation that may have only the reference on the CPU; `test` is then called with the reference.
  template <class Op, class Test>
  void for_each_kernel_or_reference(const typename Op::Spec& spec, const Test& test) {
    EXPECT_GT(run_kernels<Op>(spec, test, true), 0) << "no kernel serves " << Op::name << " " << to_string(spec);
  }

 private:
  template <class Op, class Test>
  int run_kernels(const typename Op::Spec& spec, const Test& test, bool reference_too) {
    int count = 0;
    for (const auto& kernel : registry.all<Op>()) {
      if (kernel->device() != device.kind || (kernel->name() == "reference" && !reference_too) ||
          !kernel->supports(spec, device).ok) {
        continue;
      }
      SCOPED_TRACE(std::string(name(device.kind)) + " " + std::string(kernel->name()) + ": " + to_string(spec));
      test(*kernel);
      ++count;
    }
    return count;
  }
};

/// One per program: the device is opened, threads and registry are made once.
Harness& harness();
/// Call before main() ends, while the GPU's runtime still exists.
void close_harness();

/// Largest relative error of results whose inputs or storage have this type.
inline double tolerance(DType type) { return type_tolerance(type); }

/// Skips a test of a property that only the CPU's kernels have.
#define ROCMFORGE_CPU_ONLY(reason)                   \
  if (::rocmforge::test::harness().is_gpu()) {       \
    GTEST_SKIP() << "for the CPU alone: " << reason; \
  }

}  // namespace rocmforge::test
