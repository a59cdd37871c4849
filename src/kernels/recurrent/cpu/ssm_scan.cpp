#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/cpu/isa.h"
#include "kernels/launch/parallel.h"
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
    for_each_head(context, args.batch.num_sequences, spec.heads,
                  [&](std::int64_t s, std::int64_t head) { scan(spec, args, s, head); });
  }

 private:
  void scan(const SsmScan::Spec& spec, const SsmScan::Args& args, std::int64_t s, std::int64_t head) const {
    const StateSlots& slots = args.batch.states[s];
    const std::int64_t elems = spec.head_dim * spec.state_size;
    const auto slot_at = [&](std::int32_t slot) { return args.states.floats(slot) + head * elems; };
    std::vector<float> unkept(slots.write < 0 ? static_cast<std::size_t>(elems) : 0);
    float* state = slots.write < 0 ? unkept.data() : slot_at(slots.write);
    if (slots.read >= 0) {
      std::copy_n(slot_at(slots.read), elems, state);
    } else {
      std::fill_n(state, elems, 0.0f);
    }
    const std::int64_t first = args.batch.query_offsets[s];
    for (std::int64_t t = first; t < args.batch.query_offsets[s + 1]; ++t) {
      advance(spec, args, t, head, state);
      if (slots.keep >= 0 && t - first + 1 == slots.keep_rows) {
        std::copy_n(state, elems, slot_at(slots.keep));
      }
    }
  }

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
