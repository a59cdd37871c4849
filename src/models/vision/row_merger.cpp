#include "models/vision/row_merger.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "models/parts/row_mean.h"

namespace rocmforge {
namespace {

/// Tensors of a JoinedMerger, without ".weight".
struct JoinedNames {
  std::string norm;  ///< "": none
  std::string first;
  std::string second;
  bool norm_of_joined = false;    ///< the norm is of all patches of a row together, not of each
  std::int64_t inner = 0;         ///< elements between the layers; 0: as before the first
  std::optional<float> eps = {};  ///< of the norm, which is a LayerNorm then; empty: the encoder's norm
  std::string patch_norm{};       ///< the encoder's norm of each patch before; "": none
};

/// The patches of a row side by side: second(gelu(first(norm(patch_norm(patches))))).
class JoinedMerger final : public RowMerger {
 public:
  /// For steps of up to `rows`.
  JoinedMerger(Planner& planner, const VisionConfig& config, const JoinedNames& names, std::int64_t rows)
      : width_(std::int64_t{config.encoder.hidden} * config.patches_per_row()),
        inner_(names.inner > 0 ? names.inner : width_),
        patches_(config.patches_per_row()),
        norms_per_row_(names.norm_of_joined ? 1 : patches_) {
    const ModelConfig& encoder = config.encoder;
    const auto norm_of_encoder = [&](const std::string& name) {
      return NormName{name, encoder.norm_kind, encoder.norm_eps, encoder.norm_needs_bias};
    };
    if (!names.patch_norm.empty()) {
      patch_norm_ = planner.norm(norm_of_encoder(names.patch_norm), encoder.hidden);
    }
    if (!names.norm.empty()) {
      norm_ = planner.norm(names.eps ? NormName{names.norm, NormKind::layer, *names.eps, true} : norm_of_encoder(names.norm),
                           width_ / norms_per_row_);
    }
    first_ = planner.linear(names.first, {{.name = names.first, .n = inner_, .needs_bias = true}}, width_);
    gelu_ = planner.resolve<GatedActivation>({Activation::gelu, inner_, false});
    second_ = planner.linear(names.second, {{.name = names.second, .n = config.text_width, .needs_bias = true}}, inner_);
    const auto of_patch = [this](std::int64_t width) { return (width + patches_ - 1) / patches_; };
    planner.buffers().need(BufferName::normed, encoder.hidden);  // a row of joined patches is theirs
    planner.buffers().need(BufferName::projected, of_patch(inner_));
    planner.buffers().need(BufferName::gathered, of_patch(inner_));
    if (config.places_rows()) {
      places_.emplace(planner, config, rows);
      planner.buffers().need(BufferName::projected, of_patch(config.text_width));
    }
  }

  void run(const Step& step, const MergedRows& out) const override {
    const Buffers& buffers = step.buffers;
    const float* patches = buffers.hidden;
    if (patch_norm_) {
      patch_norm_->run(step.tokens * patches_, patches, buffers.normed, step);
      patches = buffers.normed;
    }
    if (norm_) {
      norm_->run(step.tokens * norms_per_row_, patches, buffers.normed, step);
      patches = buffers.normed;
    }
    first_.run(step, patches, buffers.projected);
    gelu_.run({nullptr, buffers.projected, step.tokens, inner_, buffers.gathered}, step);
    if (places_) {
      second_.run(step, buffers.gathered, buffers.projected);
      places_->run(buffers.projected, step, out);
    } else {
      second_.run_strided(step, buffers.gathered, inner_, out.data, {}, false, out.stride);
    }
  }

 private:
  std::int64_t width_;
  std::int64_t inner_;
  std::int64_t patches_;
  std::int64_t norms_per_row_;
  std::optional<Norm> patch_norm_;
  std::optional<Norm> norm_;
  Linear first_;
  Resolved<GatedActivation> gelu_;
  Linear second_;
  std::optional<RowPlaces> places_;
};

/// The patches of a row side by side: layer(norm(patches)).
class SingleMerger final : public RowMerger {
 public:
  SingleMerger(Planner& planner, const VisionConfig& config)
      : patches_(config.patches_per_row()), width_(std::int64_t{config.encoder.hidden} * patches_) {
    const ModelConfig& encoder = config.encoder;
    norm_ = planner.norm({"v.post_ln", encoder.norm_kind, encoder.norm_eps, encoder.norm_needs_bias}, encoder.hidden);
    layer_ = planner.linear("mm.model.fc", {{.name = "mm.model.fc", .n = config.text_width}}, width_);
    planner.buffers().need(BufferName::normed, encoder.hidden);
  }

  void run(const Step& step, const MergedRows& out) const override {
    const Buffers& buffers = step.buffers;
    norm_.run(step.tokens * patches_, buffers.hidden, buffers.normed, step);
    layer_.run_strided(step, buffers.normed, width_, out.data, {}, false, out.stride);
  }

 private:
  std::int64_t patches_;
  std::int64_t width_;
  Norm norm_;
  Linear layer_;
};

/// The mean of a row's patches behind a LayerNorm of each: projection(norm(mean(post_norm(patches)))).
class MeanMerger final : public RowMerger {
 public:
  MeanMerger(Planner& planner, const VisionConfig& config, std::int64_t rows)
      : hidden_(config.encoder.hidden),
        patches_(config.patches_per_row()),
        mean_(planner, config.encoder.hidden, config.patches_per_row(), rows) {
    const ModelConfig& encoder = config.encoder;
    post_norm_ = planner.norm({"v.post_ln", encoder.norm_kind, encoder.norm_eps, encoder.norm_needs_bias}, hidden_);
    norm_ = planner.norm({"mm.soft_emb_norm", NormKind::rms, encoder.norm_eps}, hidden_);
    projection_ = planner.linear("mm.input_projection",
                                 {{.name = "mm.input_projection", .n = config.text_width, .transposed = true}}, hidden_);
    for (const BufferName buffer : {BufferName::normed, BufferName::projected}) {
      planner.buffers().need(buffer, hidden_);
    }
  }

  void run(const Step& step, const MergedRows& out) const override {
    const Buffers& buffers = step.buffers;
    post_norm_.run(step.tokens * patches_, buffers.hidden, buffers.normed, step);
    mean_.run(step, buffers.normed, buffers.projected);
    norm_.run(step.tokens, buffers.projected, buffers.normed, step);
    projection_.run_strided(step, buffers.normed, hidden_, out.data, {}, false, out.stride);
  }

 private:
  std::int64_t hidden_;
  std::int64_t patches_;
  RowMean mean_;
  Norm post_norm_;
  Norm norm_;
  Linear projection_;
};

/// projection(norm((factor mean(patches) - std_bias) * std_scale)), where the norm has no weights, and files of small
/// models have no std_bias and std_scale.
class ScaledMeanMerger final : public RowMerger {
 public:
  ScaledMeanMerger(Planner& planner, const VisionConfig& config, std::int64_t rows, float factor)
      : hidden_(config.encoder.hidden), mean_(planner, config.encoder.hidden, config.patches_per_row(), rows, factor) {
    WeightTable& weights = planner.weights();
    if (weights.has_tensor("v.std_bias") || weights.has_tensor("v.std_scale")) {
      minus_bias_ = weights.scaled_vector("v.std_bias", hidden_, -1.0f);
      scale_ = planner.vector("v.std_scale", hidden_);
      zeros_.assign(static_cast<std::size_t>(rows), 0);
      zero_ids_ = weights.constants(zeros_);
    }
    norm_ = {planner.resolve<RmsNorm>({hidden_, config.encoder.norm_eps}),
             weights.computed(std::vector<float>(static_cast<std::size_t>(hidden_), 1.0f))};
    projection_ = planner.linear("mm.input_projection", {{.name = "mm.input_projection", .n = config.text_width}}, hidden_);
    for (const BufferName buffer : {BufferName::normed, BufferName::projected}) {
      planner.buffers().need(buffer, hidden_);
    }
  }

  void run(const Step& step, const MergedRows& out) const override {
    const Buffers& buffers = step.buffers;
    float* mean = buffers.projected;
    mean_.run(step, buffers.hidden, mean);
    if (scale_ != nullptr) {
      mean_.add().run({.x = minus_bias_->data,
                       .x_stride = hidden_,
                       .from = zero_ids_->data,
                       .ids = mean_.row_ids().data,
                       .count = step.tokens,
                       .out = mean,
                       .add = true},
                      step);
      mean_.scale().run({.x = mean, .count = step.tokens * hidden_, .width = hidden_, .weights = scale_->data}, step);
    }
    norm_.run(step.tokens, mean, buffers.normed, step);
    projection_.run_strided(step, buffers.normed, hidden_, out.data, {}, false, out.stride);
  }

 private:
  std::int64_t hidden_;
  RowMean mean_;
  const WeightVector* minus_bias_ = nullptr;
  const WeightVector* scale_ = nullptr;
  std::vector<std::int32_t> zeros_;
  const IntegerVector* zero_ids_ = nullptr;
  Norm norm_;
  Linear projection_;
};

/// second(gelu(first(join(norm(patches))))), where `join` makes one state of those of a square's patches. Single patches
/// have neither it nor the norm.
class PixtralMerger final : public RowMerger {
 public:
  PixtralMerger(Planner& planner, const VisionConfig& config, std::int64_t rows)
      : hidden_(config.encoder.hidden),
        text_(config.text_width),
        patches_(config.patches_per_row()),
        places_(planner, config, rows) {
    const ModelConfig& encoder = config.encoder;
    if (patches_ > 1) {
      norm_ = planner.norm({"mm.input_norm", encoder.norm_kind, encoder.norm_eps, encoder.norm_needs_bias}, hidden_);
      join_ = planner.linear("mm.patch_merger", {{.name = "mm.patch_merger", .n = hidden_, .interleaved = patches_}},
                             patches_ * hidden_);
    }
    first_ = planner.linear("mm.1", {{.name = "mm.1", .n = text_}}, hidden_);
    gelu_ = planner.resolve<GatedActivation>({Activation::gelu, text_, false});
    second_ = planner.linear("mm.2", {{.name = "mm.2", .n = text_}}, text_);
    const std::int64_t widest = std::max(hidden_, (text_ + patches_ - 1) / patches_);  // of a patch
    for (const BufferName buffer : {BufferName::normed, BufferName::projected, BufferName::gathered}) {
      planner.buffers().need(buffer, widest);
    }
  }

  void run(const Step& step, const MergedRows& out) const override {
    const Buffers& buffers = step.buffers;
    const float* joined = buffers.hidden;
    if (norm_) {
      norm_->run(step.tokens * patches_, buffers.hidden, buffers.normed, step);
      join_.run(step, buffers.normed, buffers.gathered);
      joined = buffers.gathered;
    }
    first_.run(step, joined, buffers.projected);
    gelu_.run({nullptr, buffers.projected, step.tokens, text_, buffers.normed}, step);
    second_.run(step, buffers.normed, buffers.projected);
    places_.run(buffers.projected, step, out);
  }

 private:
  std::int64_t hidden_;
  std::int64_t text_;
  std::int64_t patches_;
  std::optional<Norm> norm_;
  Linear join_;
  Linear first_;
  Resolved<GatedActivation> gelu_;
  Linear second_;
  RowPlaces places_;
};

/// down(silu(gate(x)) * up(x)) of x = gelu(norm(layer(join(norm(patches))))), where `join` is a convolution of a square.
class DownsampledMerger final : public RowMerger {
 public:
  DownsampledMerger(Planner& planner, const VisionConfig& config)
      : text_(config.text_width), width_(config.merger_width), patches_(config.patches_per_row()) {
    const ModelConfig& encoder = config.encoder;
    const Shape square{text_, encoder.hidden, config.merge, config.merge};
    norm_ = planner.norm({"v.post_ln", encoder.norm_kind, encoder.norm_eps, encoder.norm_needs_bias}, encoder.hidden);
    join_ = planner.linear(
        "mm.patch_merger",
        {{.name = "mm.patch_merger", .n = text_, .needs_bias = true, .shape = square, .interleaved = patches_}},
        patches_ * encoder.hidden);
    layer_ = planner.linear("mm.model.fc", {{.name = "mm.model.fc", .n = text_}}, text_);
    post_norm_ = planner.norm({"mm.post_norm", NormKind::layer, 1e-5f, true}, text_);
    gelu_ = planner.resolve<GatedActivation>({Activation::gelu, text_, false});
    gate_up_ = planner.linear("mm.gate_up", {{.name = "mm.gate", .n = width_}, {.name = "mm.up", .n = width_}}, text_);
    silu_ = planner.resolve<GatedActivation>({Activation::silu, width_, true});
    down_ = planner.linear("mm.down", {{.name = "mm.down", .n = text_}}, width_);
    const auto of_patch = [this](std::int64_t width) { return (width + patches_ - 1) / patches_; };
    planner.buffers().need(BufferName::normed, std::max(std::int64_t{encoder.hidden}, of_patch(text_)));
    planner.buffers().need(BufferName::projected, of_patch(std::max(text_, 2 * width_)));
    planner.buffers().need(BufferName::gathered, of_patch(std::max(text_, width_)));
  }

  void run(const Step& step, const MergedRows& out) const override {
    const Buffers& buffers = step.buffers;
    norm_.run(step.tokens * patches_, buffers.hidden, buffers.normed, step);
    join_.run(step, buffers.normed, buffers.gathered);
    layer_.run(step, buffers.gathered, buffers.projected);
    post_norm_.run(step.tokens, buffers.projected, buffers.gathered, step);
    gelu_.run({nullptr, buffers.gathered, step.tokens, text_, buffers.normed}, step);
    gate_up_.run(step, buffers.normed, buffers.projected);
    silu_.run({buffers.projected, buffers.projected + width_, step.tokens, 2 * width_, buffers.gathered}, step);
    down_.run_strided(step, buffers.gathered, width_, out.data, {}, false, out.stride);
  }

 private:
  std::int64_t text_;
  std::int64_t width_;
  std::int64_t patches_;
  Norm norm_;
  Linear join_;
  Linear layer_;
  Norm post_norm_;
  Resolved<GatedActivation> gelu_;
  Linear gate_up_;
  Resolved<GatedActivation> silu_;
  Linear down_;
};

}  // namespace

std::unique_ptr<RowMerger> RowMerger::of_output(Planner& planner, const VisionConfig& config, std::int64_t rows) {
  switch (config.projector) {
    case Projector::joined:
      return std::make_unique<JoinedMerger>(planner, config, JoinedNames{"v.post_ln", "mm.0", "mm.2"}, rows);
    case Projector::joined_norm:
      return std::make_unique<JoinedMerger>(planner, config,
                                            JoinedNames{.norm = "mm.model.mlp.0",
                                                        .first = "mm.model.mlp.1",
                                                        .second = "mm.model.mlp.3",
                                                        .norm_of_joined = true,
                                                        .inner = config.text_width,
                                                        .eps = 1e-5f},
                                            rows);
    case Projector::normed_joined: {
      const bool has_norm = planner.weights().has_tensor("mm.input_norm.weight");
      return std::make_unique<JoinedMerger>(planner, config,
                                            JoinedNames{.norm = has_norm ? "mm.input_norm" : "",
                                                        .first = "mm.1",
                                                        .second = "mm.2",
                                                        .norm_of_joined = true,
                                                        .inner = config.merger_width,
                                                        .eps = 1e-5f,
                                                        .patch_norm = "v.post_ln"},
                                            rows);
    }
    case Projector::joined_once:
      return std::make_unique<SingleMerger>(planner, config);
    case Projector::downsampled:
      return std::make_unique<DownsampledMerger>(planner, config);
    case Projector::mean:
      return std::make_unique<MeanMerger>(planner, config, rows);
    case Projector::scaled_mean:
      return std::make_unique<ScaledMeanMerger>(planner, config, rows, std::sqrt(static_cast<float>(config.encoder.hidden)));
    case Projector::normed:
      return std::make_unique<ScaledMeanMerger>(planner, config, rows, 1.0f);
    case Projector::pixtral:
      return std::make_unique<PixtralMerger>(planner, config, rows);
  }
  fail_check("unknown projector");
}

std::unique_ptr<RowMerger> RowMerger::of_layer(Planner& planner, const VisionConfig& config, std::int32_t layer,
                                               std::int64_t rows) {
  const std::string prefix = "v.deepstack." + std::to_string(layer);
  return std::make_unique<JoinedMerger>(planner, config,
                                        JoinedNames{prefix + ".norm", prefix + ".fc1", prefix + ".fc2", true}, rows);
}

}  // namespace rocmforge
