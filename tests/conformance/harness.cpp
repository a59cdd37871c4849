#include "conformance/harness.h"

#include <thread>

namespace rocmforge::test {
namespace {

/// Three threads, to find errors in the distribution of work. With a GPU under test the processor only computes references,
/// with all threads.
int pool_threads(const TestDevice& device) {
  return device.real_gpu() ? std::max(3, static_cast<int>(std::thread::hardware_concurrency())) : 3;
}

}  // namespace

Harness::Harness()
    : test_device_(open_test_device()),
      device(test_device_.device != nullptr ? test_device_.device->info() : cpu_.info()),
      pool(pool_threads(test_device_)),
      host{&cpu_, {.pool = &pool}},
      target(host) {
  register_all_kernels(registry, test_device_.device.get());
  device.fast_bfloat_pairs = true;  // so that these kernels are also tested where they are slow
  if (test_device_.device != nullptr && test_device_.device->is_gpu()) {
    target = {test_device_.device.get(), {.stream = &test_device_.device->stream()}};
  }
  context = target.context;
}

namespace {

std::unique_ptr<Harness>& instance() {
  static std::unique_ptr<Harness> harness;
  return harness;
}

}  // namespace

Harness& harness() {
  if (instance() == nullptr) {
    instance() = std::make_unique<Harness>();
  }
  return *instance();
}

void close_harness() { instance().reset(); }

}  // namespace rocmforge::test
