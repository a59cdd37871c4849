#include "models/audio/state_projector.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "models/parts/row_mean.h"

namespace rocmforge {
namespace {

Norm post_norm(Planner& planner, const ModelConfig& encoder) {
  return planner.norm({"a.post_ln", encoder.norm_kind, encoder.norm_eps, encoder.norm_needs_bias}, encoder.hidden);
}

Step with_rows(const Step& step, std::int64_t rows) {
  Step of_rows = step;
  of_rows.tokens = rows;
  return of_rows;
}

/// layer(post_norm(mean of neighbouring states)); states that fill no mean are left out.
class MeanProjector final : public StateProjector {
 public:
  MeanProjector(Planner& planner, const AudioConfig& config)
      : count_(config.stack), mean_(planner, config.encoder.hidden, config.stack, config.max_rows()) {
    norm_ = post_norm(planner, config.encoder);
    layer_ =
        planner.linear("mm.a.fc", {{.name = "mm.a.fc", .n = config.text_width, .needs_bias = true}}, config.encoder.hidden);
    planner.buffers().need(BufferName::projected, config.encoder.hidden);
    planner.buffers().need(BufferName::normed, config.encoder.hidden);
  }

  void run(const Step& step, float* out) const override {
    const Step rows = with_rows(step, step.tokens / count_);
    mean_.run(rows, step.buffers.hidden, step.buffers.projected);
    norm_.run(rows.tokens, step.buffers.projected, step.buffers.normed, rows);
    layer_.run(rows, step.buffers.normed, out);
  }

 private:
  std::int64_t count_;
  RowMean mean_;
  Norm norm_;
  Linear layer_;
};

/// Post-normed states side by side, with zeros behind the last ones where they fill no row.
class StackedStates {
 public:
  StackedStates(Planner& planner, const AudioConfig& config)
      : hidden_(config.encoder.hidden),
        count_(config.stack),
        zero_ids_(static_cast<std::size_t>(count_), 0),
        row_ids_(static_cast<std::size_t>(config.max_rows() * count_)) {
    norm_ = post_norm(planner, config.encoder);
    std::iota(row_ids_.begin(), row_ids_.end(), 0);
    put_ = planner.resolve<OverwriteRows>({hidden_});
    zero_row_ = planner.weights().computed(std::vector<float>(static_cast<std::size_t>(hidden_), 0.0f));
    zeros_from_ = planner.weights().constants(zero_ids_);
    rows_to_ = planner.weights().constants(row_ids_);
    planner.buffers().need(BufferName::normed, (config.max_rows() * count_ * hidden_ + config.states - 1) / config.states);
  }
  StackedStates(const StackedStates&) = delete;
  StackedStates& operator=(const StackedStates&) = delete;

  /// Of Buffers::hidden, to Buffers::normed. Returns how many.
  std::int64_t run(const Step& step) const {
    norm_.run(step.tokens, step.buffers.hidden, step.buffers.normed, step);
    const std::int64_t rows = (step.tokens + count_ - 1) / count_;
    if (const std::int64_t missing = rows * count_ - step.tokens; missing > 0) {
      put_.run({.x = zero_row_->data,
                .x_stride = hidden_,
                .from = zeros_from_->data,
                .ids = rows_to_->data + step.tokens,
                .count = missing,
                .out = step.buffers.normed},
               step);
    }
    return rows;
  }
  [[nodiscard]] std::int64_t width() const { return hidden_ * count_; }

 private:
  std::int64_t hidden_;
  std::int64_t count_;
  std::vector<std::int32_t> zero_ids_;
  std::vector<std::int32_t> row_ids_;
  Norm norm_;
  Resolved<OverwriteRows> put_;
  const WeightVector* zero_row_ = nullptr;
  const IntegerVector* zeros_from_ = nullptr;
  const IntegerVector* rows_to_ = nullptr;
};

/// second(gelu(first(stacked))); with norms second(norm_mid(a * silu(b))), where [a | b] = first(norm_pre(stacked)).
class StackedProjector final : public StateProjector {
 public:
  StackedProjector(Planner& planner, const AudioConfig& config)
      : stacked_(planner, config),
        has_norms_(config.projector == SoundProjector::stacked_norm),
        width_(config.projector_width),
        inner_(has_norms_ ? width_ / 2 : width_) {
    const auto layer = [&](const std::string& name, std::int64_t n, std::int64_t k) {
      return planner.linear(name, {{.name = name, .n = n}}, k);
    };
    if (has_norms_) {
      constexpr float eps = 1e-6f;
      pre_norm_ = planner.norm({"mm.a.norm_pre", NormKind::rms, eps}, stacked_.width());
      mid_norm_ = planner.norm({"mm.a.norm_mid", NormKind::rms, eps}, inner_);
    }
    first_ = layer("mm.a.mlp.1", width_, stacked_.width());
    activation_ = planner.resolve<GatedActivation>({has_norms_ ? Activation::silu : Activation::gelu, inner_, has_norms_});
    second_ = layer("mm.a.mlp.2", config.text_width, inner_);
    const auto of_state = [&](std::int64_t width) {
      return (config.max_rows() * width + config.states - 1) / config.states;
    };
    const std::int64_t widest = of_state(std::max(stacked_.width(), width_));
    for (const BufferName buffer : {BufferName::normed, BufferName::projected, BufferName::gathered}) {
      planner.buffers().need(buffer, widest);
    }
  }

  void run(const Step& step, float* out) const override {
    const Buffers& buffers = step.buffers;
    const Step rows = with_rows(step, stacked_.run(step));
    if (!has_norms_) {
      first_.run(rows, buffers.normed, buffers.projected);
      activation_.run({nullptr, buffers.projected, rows.tokens, inner_, buffers.gathered}, rows);
      second_.run(rows, buffers.gathered, out);
      return;
    }
    pre_norm_.run(rows.tokens, buffers.normed, buffers.projected, rows);
    first_.run(rows, buffers.projected, buffers.gathered);
    activation_.run({buffers.gathered + inner_, buffers.gathered, rows.tokens, width_, buffers.normed}, rows);
    mid_norm_.run(rows.tokens, buffers.normed, buffers.projected, rows);
    second_.run(rows, buffers.projected, out);
  }

 private:
  StackedStates stacked_;
  bool has_norms_;
  std::int64_t width_;  ///< of the first layer's outputs
  std::int64_t inner_;  ///< of the second one's inputs
  Norm pre_norm_;
  Norm mid_norm_;
  Linear first_;
  Resolved<GatedActivation> activation_;
  Linear second_;
};

}  // namespace

std::unique_ptr<StateProjector> StateProjector::make(Planner& planner, const AudioConfig& config) {
  switch (config.projector) {
    case SoundProjector::mean:
      return std::make_unique<MeanProjector>(planner, config);
    case SoundProjector::stacked:
    case SoundProjector::stacked_norm:
      return std::make_unique<StackedProjector>(planner, config);
  }
  fail_check("unknown projector");
}

}  // namespace rocmforge
