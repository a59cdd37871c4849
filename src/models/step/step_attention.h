#pragma once

#include <array>

#include "models/parts/operation.h"
#include "ops/attention.h"

namespace rocmforge {

/// Attention of a step by two kernels on one cache: one for sequences with several rows (prefill), one for those with a
/// single row (decode). Where both are the same kernel, it takes all sequences at once. Further kernels, where they are
/// planned: in place of prefill's in steps with tokens that see each other, and for all of a step of few rows a sequence.
class StepAttention {
 public:
  StepAttention() = default;
  /// `single`: the spec for sequences with a single row, see single_row_spec.
  StepAttention(const Attention::Spec& spec, const Attention::Spec& single, const AttentionBackend& prefill,
                const AttentionBackend& decode);

  /// For steps with a visible_end.
  void set_spans(const AttentionBackend& backend);
  /// In such steps, too, rows see up to themselves.
  void pass_over_spans() { passes_over_spans_ = true; }
  /// For steps with at most `rows` rows a sequence: 2, 4 or 8.
  void set_few(std::int32_t rows, const AttentionBackend& backend);

  /// Whether `run` in this step may include the append (Attention::Args::append).
  [[nodiscard]] bool takes(const RopeAppend::Spec& append, const Step& step) const;
  /// The same for every step of sequences with one row each.
  [[nodiscard]] bool takes(const RopeAppend::Spec& append) const;

  /// Takes the cache, batch, rows and memory from `step`, the rest from `args`.
  void run(Attention::Args args, const Step& step) const;
  /// As run(), only for the step's sequences that decode kernels take.
  void run_single(const Attention::Args& args, const Step& step) const;

  [[nodiscard]] float scale() const { return prefill_.spec.scale; }
  /// Scratch memory of the kernels for any step.
  [[nodiscard]] std::size_t workspace_bytes(const AttentionLimits& limits) const;

 private:
  struct Phase {
    Attention::Spec spec;
    const AttentionBackend* backend = nullptr;
    int state = 0;  ///< of Buffers::attention_states
  };
  static constexpr std::size_t few_kinds = 3;  ///< up to 2, 4 and 8 rows
  /// The kernel of sequences with few rows, or with one.
  [[nodiscard]] const Phase& decode_of(const Step& step) const;
  void call(const Phase& phase, Attention::Args args, Attention::Rows rows, const Step& step) const;

  Phase prefill_;
  Phase decode_;
  Phase spans_;
  bool passes_over_spans_ = false;
  std::array<Phase, few_kinds> few_;
};

}  // namespace rocmforge
