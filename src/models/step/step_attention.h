#pragma once

#include "models/parts/operation.h"
#include "ops/attention.h"

namespace rocmforge {

/// Attention of a step by two kernels on one cache: one for sequences with several rows (prefill), one for those with a
/// single row (decode). Where both are the same kernel, it takes all sequences at once.
class StepAttention {
 public:
  StepAttention() = default;
  /// `single`: the spec for sequences with a single row, see single_row_spec.
  StepAttention(const Attention::Spec& spec, const Attention::Spec& single, const AttentionBackend& prefill,
                const AttentionBackend& decode);

  /// Whether `run` in this step may include the append (Attention::Args::append).
  [[nodiscard]] bool takes(const RopeAppend::Spec& append, const Step& step) const;
  /// The same for every step of sequences with one row each.
  [[nodiscard]] bool takes(const RopeAppend::Spec& append) const;

  /// Takes the cache, batch, rows and memory from `step`, the rest from `args`.
  void run(Attention::Args args, const Step& step) const;
  /// As run(), only for the step's sequences with a single row.
  void run_single(const Attention::Args& args, const Step& step) const;

  [[nodiscard]] float scale() const { return phases_[0].spec.scale; }
  /// Scratch memory of either phase.
  [[nodiscard]] std::size_t workspace_bytes(const AttentionLimits& limits) const;

 private:
  void call(bool decode, Attention::Args args, Attention::Rows rows, const Step& step) const;

  struct Phase {
    Attention::Spec spec;
    const AttentionBackend* backend = nullptr;
  };
  Phase phases_[2];  ///< prefill, decode
};

}  // namespace rocmforge
