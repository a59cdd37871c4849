#include "extension/toy_operation.h"
#include "kernels/launch/parallel.h"

namespace rocmforge {
namespace {

class CpuToyLimit final : public OpKernel<ToyLimit> {
 public:
  [[nodiscard]] std::string_view name() const override { return "cpu_toy"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::portable; }
  [[nodiscard]] Support supports(const ToyLimit::Spec& spec, const DeviceInfo&) const override {
    if (Support support = check_spec(spec); !support.ok) {
      return support;
    }
    return spec.width % 4 == 0 ? Support::yes() : Support::no("the width is not a multiple of 4");
  }

  void run(const ToyLimit::Spec& spec, const ToyLimit::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    for_each_range(context, args.rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (float* x = args.x + begin * spec.width; x < args.x + end * spec.width; ++x) {
        const float below = *x > spec.limit ? spec.limit : *x;
        *x = below < -spec.limit ? -spec.limit : below;
      }
    });
  }
};

}  // namespace

std::unique_ptr<OpKernel<ToyLimit>> make_cpu_toy_limit() { return std::make_unique<CpuToyLimit>(); }

}  // namespace rocmforge
