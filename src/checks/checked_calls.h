#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "checks/difference.h"
#include "device/device.h"
#include "ops/registry.h"

namespace rocmforge {

/// Calls of one kernel that are timed: with several sets of inputs in turn, which all write the same output of f32. Every
/// element that they write is compared with an oracle's.
class CheckedCalls {
 public:
  virtual ~CheckedCalls() = default;
  CheckedCalls(const CheckedCalls&) = delete;
  CheckedCalls& operator=(const CheckedCalls&) = delete;

  /// The number of input sets.
  [[nodiscard]] virtual int inputs() const = 0;
  /// One call with a set of inputs; on a GPU it is put on the context's stream.
  virtual void run(int input) = 0;

  /// Calls with each set once, each on a poisoned output. Returns the first difference that is wrong, else the largest. Then
  /// poisons the output again.
  OutputDifference check_each();
  /// How the output that the last call left differs, which had the set `input`. Waits for it.
  OutputDifference check_last(int input);

 protected:
  /// The output has [rows, width] numbers. `device` and `context` must outlive the calls.
  CheckedCalls(Device& device, ExecutionContext& context, std::int64_t rows, std::int64_t width, double tolerance);
  /// The oracle's output for a set of inputs. The same memory for two sets says that they have equal inputs.
  virtual std::span<const float> expected(int input) = 0;

  /// Memory that is poisoned before each call of check_each(), as the output is; null for none.
  void* scratch(std::size_t size_bytes);

  [[nodiscard]] float* out() const { return out_.as<float>(); }
  [[nodiscard]] Device& device() const { return *device_; }
  [[nodiscard]] ExecutionContext& context() const { return *context_; }

 private:
  void poison_all();
  OutputDifference compare(int input);

  Device* device_;
  ExecutionContext* context_;
  std::int64_t width_;
  double tolerance_;
  DeviceBuffer out_;
  std::vector<DeviceBuffer> scratch_;
  std::vector<float> actual_;
  // Equal outputs for equal inputs are compared with each other: bits are compared faster than numbers.
  std::vector<float> last_actual_;
  const float* last_expected_ = nullptr;
  OutputDifference last_;
};

/// The output that `call` writes into memory of `device` as the oracle's: [elements] of f32, poisoned before.
std::vector<float> output_of_call(Device& device, ExecutionContext& context, std::int64_t elements,
                                  const std::function<void(float* out)>& call);

}  // namespace rocmforge
