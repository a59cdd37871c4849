#pragma once

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/batch_plan.h"

namespace rocmforge::test {

/// Where a kernel runs.
struct Place {
  Device* device;
  ExecutionContext context;
};

/// The arrays of one call, in the memory of the place where it runs. Each has memory of its own, between guard bytes that
/// read as NaN. run() checks that the guards and the inputs are unchanged. ROCMFORGE_TEST_GUARDS=0 leaves the guards out, so
/// that a memory checker sees the ends of the arrays.
class Arena {
 public:
  explicit Arena(Place& place) : place_(&place) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// An array that a kernel only reads.
  template <class T>
  const T* in(std::span<const T> values) {
    return static_cast<const T*>(add(std::as_bytes(values), Role::input));
  }
  template <class T>
  const T* in(const std::vector<T>& values) {
    return in(std::span<const T>(values));
  }
  /// An array that a kernel reads and writes.
  template <class T>
  T* in_out(std::span<const T> values) {
    return static_cast<T*>(add(std::as_bytes(values), Role::output));
  }
  template <class T>
  T* in_out(const std::vector<T>& values) {
    return in_out(std::span<const T>(values));
  }
  /// An array whose every bit is set: floats of any type are NaN until they are written.
  template <class T>
  T* out(std::int64_t count) {
    const std::vector<std::byte> poison(static_cast<std::size_t>(count) * sizeof(T), std::byte{0xff});
    return static_cast<T*>(add(poison, Role::output));
  }
  /// Poisoned scratch memory; null for none.
  void* workspace(std::size_t size_bytes) { return size_bytes == 0 ? nullptr : out<std::byte>(std::int64_t(size_bytes)); }
  /// Zeros that every run must leave as zeros; null for none.
  void* state(std::size_t size_bytes);

  /// The arrays of a step. Sizes stay on the host.
  RaggedBatch batch(const BatchPlan& plan);

  /// Calls run(context), waits until the work is done and checks the arrays. On a GPU the call itself may neither copy to
  /// the host, wait, nor allocate.
  template <class Run>
  void run(Run&& run) {
    begin();
    run(place_->context);
    end();
  }

  template <class T>
  [[nodiscard]] std::vector<T> read(const T* from, std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    place_->device->download(values.data(), from, values.size() * sizeof(T));
    return values;
  }

 private:
  enum class Role { input, output, state };
  struct Array {
    std::byte* memory;  ///< guard, data, guard
    std::size_t size_bytes;
    DeviceBuffer buffer;            ///< on a GPU
    std::vector<std::byte> before;  ///< of an input or a state
  };

  void* add(std::span<const std::byte> data, Role role);
  void begin();
  void end();
  void check_array(const Array& array, std::size_t index);

  Place* place_;
  std::vector<Array> arrays_;
  DriverCounters counters_;
};

}  // namespace rocmforge::test
