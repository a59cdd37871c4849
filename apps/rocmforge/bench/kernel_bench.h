#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "checks/checked_calls.h"
#include "command.h"
#include "device/ceilings.h"
#include "device/device.h"
#include "kernels/register_all.h"
#include "terminal/text.h"

namespace rocmforge::app {

/// Median seconds of a call, and how its outputs differ from the oracle's.
struct CheckedTime {
  double seconds = 0.0;
  OutputDifference difference;  ///< the first that is wrong, else the largest
};

/// Shared by the single-kernel measurements: a device, all kernels, and the ceilings measured in this run.
class KernelBench {
 public:
  /// `device` as --device takes it; `kernel_folder` as --kernel-dir, "" for the objects in the program.
  KernelBench(const std::string& device, const std::string& kernel_folder, int threads);
  /// The kernels are not measured.
  void leave_out(const std::vector<AvoidedKernel>& kernels);
  template <class Kernel>
  [[nodiscard]] bool left_out(std::string_view operation, const Kernel& kernel) const {
    return find_avoided(registry_.avoided(), operation, kernel.name()) != nullptr;
  }

  [[nodiscard]] Device& device() { return *device_; }
  [[nodiscard]] const KernelRegistry& registry() const { return registry_; }
  [[nodiscard]] ExecutionContext& context() { return context_; }
  [[nodiscard]] const Ceilings& ceilings() const { return ceilings_; }

  /// Median seconds of one call. `call(i)` enqueues one call with input set i of `inputs`. If the sets together exceed the
  /// caches, the inputs are read from memory. On a GPU the calls are replayed from a graph, so that launches cost the same
  /// as in a model.
  double median_seconds(const std::function<void(int)>& call, int inputs);

  /// Checks the calls with each input set, times them, and checks what the last timed call left.
  CheckedTime check_and_time(CheckedCalls& calls);

  /// One line that names the device and its ceilings.
  [[nodiscard]] std::string headline() const;

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<ThreadPool> pool_;
  KernelRegistry registry_;
  ExecutionContext context_;
  Ceilings ceilings_;
};

/// A table of measurements, and which of them were of kernels that compute wrong.
struct Report {
  explicit Report(Table columns) : table(std::move(columns)) {}
  /// `call` names kernel and shape.
  void note_if_wrong(const OutputDifference& difference, const std::string& call);
  /// Prints headline and table, or both as JSON, and a line for each wrong call on standard error. Returns the exit code.
  [[nodiscard]] int print(const std::string& headline, bool json) const;

  Table table;
  std::vector<std::string> wrong;
};

/// "91.5", percent of a ceiling; empty where that is not known.
std::string percent_of(double value, double ceiling);
/// "3.1e-04", or "NaN WRONG"
std::string error_text(const OutputDifference& difference);

/// Measures a GPU: streaming reads, a device-to-device copy, and f16 matrix products (registers alone, or a large product by
/// the fastest kernel of `registry`, whichever is faster).
Ceilings measure_gpu_ceilings(Device& device, const KernelRegistry& registry);

/// The folder of measured ceilings: XDG_CACHE_HOME or ~/.cache.
CeilingCache ceiling_cache();

// `rocmforge bench attention` and `rocmforge bench matmul`.
struct KernelBenchFlags {
  std::string device = "auto";
  std::string kernel_folder;
  std::int32_t threads = 0;
  std::string kernel;  ///< measure only this one
  std::vector<std::string> without;
  bool json = false;
  void add_to(Command& command);
};

}  // namespace rocmforge::app
