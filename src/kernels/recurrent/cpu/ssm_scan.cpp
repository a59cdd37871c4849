#include <cmath>

#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/cpu/isa.h"
#include "kernels/launch/parallel.h"
#include "kernels/recurrent/cpu/slot_rows.h"
#include "kernels/recurrent/kernels.h"

namespace rocmforge {
namespace {

/// A thread takes one head of a sequence, so that its state stays in the first-level cache from row to row.
class CpuSsmScan final : public CpuKernel<OpKernel<SsmScan>> {
 public:
  using CpuKernel::CpuKernel;

  [[nodiscard]] Support supports(const SsmScan::Spec& spec, const DeviceInfo& device) const override {
    const Support support = check_device(device);
    return support.ok ? check_spec(spec) : support;
  }

  void run(const SsmScan::Spec& spec, const SsmScan::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t elems = spec.head_dim * spec.state_size;
    for_each_head(context, args.batch.num_sequences, spec.heads, [&](std::int64_t s, std::int64_t head) {
      for_each_row_in_slot(args.states, args.batch, s, head * elems, elems,
                           [&](std::int64_t t, float* state) { advance(spec, args, t, head, state); });
    });
  }

 private:
  void advance(const SsmScan::Spec& spec, const SsmScan::Args& args, std::int64_t t, std::int64_t head, float* state) const {
    const float* row = args.x + t * spec.input_width();
    const float* b = row + spec.inner() + head / (spec.heads / spec.groups) * spec.state_size;
    const float raw = args.dt[t * args.stride + head] + args.dt_bias[head];
    const float step = raw > 20.0f ? raw : std::log1p(std::exp(raw));
    float* out = args.out + t * spec.inner() + head * spec.head_dim;
    body().ssm_scan_row({.state = state,
                         .x = row + head * spec.head_dim,
                         .b = b,
                         .c = b + spec.groups * spec.state_size,
                         .decay = std::exp(step * args.a[head]),
                         .step = step,
                         .skip = args.d[head],
                         .out = out,
                         .head_dim = static_cast<std::int32_t>(spec.head_dim),
                         .state_size = static_cast<std::int32_t>(spec.state_size)});
    body().silu_gate(args.z + t * args.stride + head * spec.head_dim, out, spec.head_dim, out);
  }
};

}  // namespace

std::unique_ptr<OpKernel<SsmScan>> make_cpu_ssm_scan(const CpuBodies& bodies) {
  return std::make_unique<CpuSsmScan>(bodies);
}

}  // namespace rocmforge
