#include "models/step/step_attention.h"

#include <algorithm>

#include "base/error.h"

namespace rocmforge {

StepAttention::StepAttention(const Attention::Spec& spec, const Attention::Spec& single, const AttentionBackend& prefill,
                             const AttentionBackend& decode)
    : phases_{{spec, &prefill}, {single, &decode}} {
  check(!spec.decode && single.decode, "each phase has its spec");
}

bool StepAttention::takes(const RopeAppend::Spec& append) const {
  return phases_[1].backend->takes(phases_[1].spec, append);
}

bool StepAttention::takes(const RopeAppend::Spec& append, const Step& step) const {
  return !step.any_several && step.batch.position_axes == 1 && takes(append);
}

void StepAttention::run(Attention::Args args, const Step& step) const {
  if (!step.any_several) {
    call(true, args, Attention::Rows::all, step);
  } else if (!step.any_single || phases_[0].backend == phases_[1].backend) {
    call(false, args, Attention::Rows::all, step);
  } else {
    call(true, args, Attention::Rows::single, step);
    call(false, args, Attention::Rows::several, step);
  }
}

void StepAttention::run_single(const Attention::Args& args, const Step& step) const {
  call(true, args, step.any_several ? Attention::Rows::single : Attention::Rows::all, step);
}

std::size_t StepAttention::workspace_bytes(const AttentionLimits& limits) const {
  return std::max(phases_[0].backend->workspace_bytes(phases_[0].spec, limits),
                  phases_[1].backend->workspace_bytes(phases_[1].spec, limits));
}

void StepAttention::call(bool decode, Attention::Args args, Attention::Rows rows, const Step& step) const {
  const Phase& phase = phases_[decode ? 1 : 0];
  args.cache = step.cache;
  args.batch = step.batch;
  args.rows = rows;
  args.workspace = step.buffers.scratch;
  args.state = step.buffers.attention_states[decode ? 1 : 0];
  phase.backend->run(phase.spec, step.layout, args, *step.context);
}

}  // namespace rocmforge
