#include <cmath>

#include "extension/toy_operation.h"
#include "kernels/launch/reference_kernel.h"

namespace rocmforge {
namespace {

class ReferenceToyLimit final : public AnyReference<ToyLimit> {
 public:
  void run(const ToyLimit::Spec& spec, const ToyLimit::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args);
    for (std::int64_t i = 0; i < args.rows * spec.width; ++i) {
      const double x = double{args.x[i]};
      if (std::abs(x) > double{spec.limit}) {
        args.x[i] = std::copysign(spec.limit, args.x[i]);
      }
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<ToyLimit>> make_reference_toy_limit() { return std::make_unique<ReferenceToyLimit>(); }

}  // namespace rocmforge
