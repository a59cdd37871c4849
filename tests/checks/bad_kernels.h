#pragma once

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check/check_parent.h"
#include "device/device_faults.h"
#include "device/launch_trace.h"
#include "kernels/register_all.h"

namespace rocmforge::test {

/// An RMSNorm for the CPU whose faults are chosen by its name.
class BadNorm final : public OpKernel<RmsNorm> {
 public:
  explicit BadNorm(std::string name) : name_(std::move(name)) {}
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::architecture; }
  [[nodiscard]] Support supports(const RmsNorm::Spec&, const DeviceInfo&) const override { return Support::yes(); }

  void run(const RmsNorm::Spec& spec, const RmsNorm::Args& args, ExecutionContext&) const override {
    launch_trace().note(name_);
    if (name_ == "endless") {
      std::this_thread::sleep_for(std::chrono::hours(1));
    }
    if (name_ == "faulting") {
      report_device_fault({0x1000, 1});
    }
    if (name_ == "aborting") {
      std::abort();
    }
    const std::int64_t rows = name_ == "a_row_less" ? args.rows - 1 : args.rows;
    for (std::int64_t row = 0; row < rows; ++row) {
      write_row(spec, args, row);
    }
    ++calls_;
    if (name_ == "unsteady") {
      args.out[0] *= calls_ % 2 == 0 ? 1.0f : 1.0000001f;
    }
    if (name_ == "past_the_end") {
      args.out[args.rows * spec.dim] = 1.0f;
    }
    if (name_ == "into_its_input") {
      const_cast<float*>(args.x)[3] = 1.0f;
    }
    if (name_ == "wrong") {
      args.out[(args.rows - 1) * spec.dim + 5] += 0.5f;
    }
  }

 private:
  static void write_row(const RmsNorm::Spec& spec, const RmsNorm::Args& args, std::int64_t row) {
    const float* x = args.x + row * spec.dim;
    double squares = 0.0;
    for (std::int64_t i = 0; i < spec.dim; ++i) {
      squares += double{x[i]} * double{x[i]};
    }
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(spec.dim) + double{spec.eps});
    for (std::int64_t i = 0; i < spec.dim; ++i) {
      const double normed = double{x[i]} * factor * double{args.weight[i]};
      const std::int64_t at = row * spec.dim + i;
      args.out[at] = static_cast<float>(
          args.residual == nullptr ? normed
                                   : (double{args.residual[at]} + double{args.factor} * normed) * double{args.scale});
    }
  }

  std::string name_;
  mutable int calls_ = 0;
};

/// A CPU with all kernels, and norms of these names beside them; each is checked, then the program's own norm.
inline app::CheckSetUp set_up_with(const std::vector<std::string>& names) {
  app::CheckSetUp set_up;
  set_up.device = std::make_unique<Device>();
  set_up.pool = std::make_unique<ThreadPool>(2);
  auto registry = std::make_unique<KernelRegistry>();
  const RmsNorm::Spec spec{64, 1e-5f};
  register_all_kernels(*registry, set_up.device.get());
  const auto* own = registry->choose<RmsNorm>(spec, set_up.device->info()).kernel;
  std::vector<KernelRegistry::AnyUse> uses;
  for (const std::string& name : names) {
    auto kernel = std::make_unique<BadNorm>(name);
    uses.emplace_back(KernelUse<RmsNorm>{spec, kernel.get()});
    registry->add<RmsNorm>(std::move(kernel));
  }
  uses.emplace_back(KernelUse<RmsNorm>{spec, own});
  set_up.cases = cases_of(uses, *registry, set_up.device->info(), {.limits = {.max_tokens = 8}});
  set_up.registry = std::move(registry);
  return set_up;
}

}  // namespace rocmforge::test
