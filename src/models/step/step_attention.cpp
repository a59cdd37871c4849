#include "models/step/step_attention.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace rocmforge {
namespace {

Attention::Spec with_rows(Attention::Spec spec, std::int32_t most) {
  spec.most_rows = most;
  return spec;
}

Attention::Spec with_spans(Attention::Spec spec) {
  spec.spans = true;
  return spec;
}

/// Of at most 2, 4 and 8 rows.
std::size_t index_of(std::int32_t rows) {
  return static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(rows))) - 1;
}

}  // namespace

StepAttention::StepAttention(const Attention::Spec& spec, const Attention::Spec& single, const AttentionBackend& prefill,
                             const AttentionBackend& decode)
    : prefill_{spec, &prefill, 0}, decode_{single, &decode, 1} {
  check(spec.most_rows == 0 && single.has_single_rows(), "each phase has its spec");
}

void StepAttention::set_spans(const AttentionBackend& backend) { spans_ = {with_spans(prefill_.spec), &backend, 0}; }

void StepAttention::set_few(std::int32_t rows, const AttentionBackend& backend) {
  few_.at(index_of(rows)) = {with_rows(prefill_.spec, rows), &backend, 1};
}

bool StepAttention::takes(const RopeAppend::Spec& append) const { return decode_.backend->takes(decode_.spec, append); }

bool StepAttention::takes(const RopeAppend::Spec& append, const Step& step) const {
  return !step.any_several && step.most_rows <= 1 && step.batch.position_axes == 1 && takes(append);
}

const StepAttention::Phase& StepAttention::decode_of(const Step& step) const {
  if (step.most_rows <= 1) {
    return decode_;
  }
  const Phase& few = few_.at(index_of(step.most_rows));
  check(few.backend != nullptr, "attention: a step of few rows a sequence, but no kernel for it is planned");
  return few;
}

void StepAttention::run(Attention::Args args, const Step& step) const {
  const bool any_spans = step.batch.visible_end != nullptr && !passes_over_spans_;
  check(!any_spans || spans_.backend != nullptr, "attention: tokens see each other, but no kernel for that is planned");
  const Phase& several = any_spans ? spans_ : prefill_;
  const Phase& decode = decode_of(step);
  if (!step.any_several) {
    call(decode, args, Attention::Rows::all, step);
  } else if (!step.any_single || several.backend == decode.backend) {
    call(several, args, Attention::Rows::all, step);
  } else {
    call(decode, args, Attention::Rows::single, step);
    call(several, args, Attention::Rows::several, step);
  }
}

void StepAttention::run_single(const Attention::Args& args, const Step& step) const {
  call(decode_of(step), args, step.any_several ? Attention::Rows::single : Attention::Rows::all, step);
}

std::size_t StepAttention::workspace_bytes(const AttentionLimits& limits) const {
  std::size_t most = 0;
  for (const Phase* phase : {&prefill_, &decode_, &spans_, few_.data(), &few_[1], &few_[2]}) {
    most = phase->backend != nullptr ? std::max(most, phase->backend->workspace_bytes(phase->spec, limits)) : most;
  }
  return most;
}

void StepAttention::call(const Phase& phase, Attention::Args args, Attention::Rows rows, const Step& step) const {
  args.cache = step.cache;
  args.batch = step.batch;
  if (passes_over_spans_) {
    args.batch.visible_end = nullptr;
  }
  args.rows = rows;
  args.workspace = step.buffers.scratch;
  args.state = step.buffers.attention_states[phase.state];
  phase.backend->run(phase.spec, step.layout, args, *step.context);
}

}  // namespace rocmforge
