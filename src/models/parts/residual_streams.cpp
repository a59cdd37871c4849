#include "models/parts/residual_streams.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "models/config/model_tensors.h"

namespace rocmforge {
namespace {

constexpr std::int64_t streams = MixStreams::streams;

/// The matrix [streams, columns] of `entry` for each output and input.
template <class Entry>
const WeightVector* matrix(Planner& planner, std::int64_t columns, const Entry& entry) {
  std::vector<float> values;
  for (std::int64_t b = 0; b < streams; ++b) {
    for (std::int64_t a = 0; a < columns; ++a) {
      values.push_back(entry(b, a));
    }
  }
  return planner.weights().computed(std::move(values));
}

/// Stream b becomes input b.
const WeightVector* identity(Planner& planner) {
  return matrix(planner, streams, [](std::int64_t b, std::int64_t a) { return a == b ? 1.0f : 0.0f; });
}

/// The difference between the row behind the streams and the first stream is added with this factor.
float of_difference(std::int64_t a, float factor) { return a == streams ? factor : a == 0 ? -factor : 0.0f; }

/// [streams, streams] of the file, factors of differences, as the coefficients [streams, streams + 1, streams].
std::vector<float> correction(std::span<const float> factors) {
  std::vector<float> values;
  for (std::int64_t b = 0; b < streams; ++b) {
    for (std::int64_t a = 0; a <= streams; ++a) {
      for (std::int64_t j = 0; j < streams; ++j) {
        values.push_back(of_difference(a, factors[static_cast<std::size_t>(b * streams + j)]));
      }
    }
  }
  return values;
}

}  // namespace

StreamInput::StreamInput(Planner& planner, const ModelConfig& config)
    : hidden_(config.hidden),
      project_(planner.linear(
          "altup_proj",
          {{.name = "altup_proj", .n = (streams - 1) * hidden_, .shape = Shape{streams - 1, hidden_, hidden_}}}, hidden_)),
      match_(planner.resolve<MixStreams>({hidden_, MixStreams::Inputs::matched})),
      identity_(identity(planner)) {
  planner.buffers().need(BufferName::streams, streams * hidden_);
}

void StreamInput::append(Operations& operations) const {
  operations.push_back({project_.kind(), [this](const Step& step) {
                          project_.run_strided(step, step.buffers.hidden, hidden_, step.buffers.streams + hidden_, {}, false,
                                               streams * hidden_);
                        }});
  operations.push_back({std::string(MixStreams::name), [this](const Step& step) {
                          match_.run({.x = step.buffers.streams,
                                      .row = step.buffers.hidden,
                                      .base = identity_->data,
                                      .tokens = step.tokens,
                                      .first = step.buffers.hidden},
                                     step);
                        }});
}

BlockStreams::BlockStreams(Planner& planner, const ModelConfig& config, int index) {
  check(config.residual_streams == streams, "sums of another number of streams have no kernels");
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const std::int64_t hidden = config.hidden;
  planner.buffers().need(BufferName::streams, streams * hidden);
  planner.buffers().need(BufferName::projected, streams);
  NormName norm{name("altup_router_norm"), NormKind::rms, config.norm_eps};
  norm.factor = 1.0f / static_cast<float>(hidden);
  router_ = planner.fused_linear(name("altup_router"), norm, {{name("altup_router"), streams}}, hidden);
  predict_ = planner.resolve<MixStreams>({hidden, MixStreams::Inputs::streams});
  correct_ = planner.resolve<MixStreams>({hidden, MixStreams::Inputs::and_row});
  planner.resolve<MixStreams>(correct_.spec);  // of the last sum, for the plan
  predict_coefs_ = planner.floats(name("altup_predict_coef.weight"), {streams * streams, streams});
  correct_coefs_ = planner.weights().derived_vector(name("altup_correct_coef.weight"), {streams, streams}, correction);
  correct_scale_ = planner.vector(name("altup_correct_scale.weight"), hidden);
  predict_base_ = identity(planner);
  const auto kept = [](std::int64_t b, std::int64_t a) { return a == b ? 1.0f : 0.0f; };
  correct_base_ =
      matrix(planner, streams + 1, [&](std::int64_t b, std::int64_t a) { return kept(b, a) + of_difference(a, 1.0f); });
  add_base_ = matrix(planner, streams + 1,
                     [&](std::int64_t b, std::int64_t a) { return kept(b, a) + (a == streams && b > 0 ? 1.0f : 0.0f); });
}

void BlockStreams::append_predict(Operations& operations) const {
  router_.append(operations, &Buffers::hidden, &Buffers::projected);
  operations.push_back({std::string(MixStreams::name), [this](const Step& step) {
                          predict_.run({.x = step.buffers.streams,
                                        .logits = step.buffers.projected,
                                        .base = predict_base_->data,
                                        .coefs = predict_coefs_->data,
                                        .tokens = step.tokens,
                                        .first = step.buffers.hidden},
                                       step);
                        }});
}

void BlockStreams::append_correct(Operations& operations) const {
  router_.append(operations, &Buffers::hidden, &Buffers::projected);
  operations.push_back({std::string(MixStreams::name), [this](const Step& step) {
                          correct_.run({.x = step.buffers.streams,
                                        .row = step.buffers.hidden,
                                        .logits = step.buffers.projected,
                                        .base = correct_base_->data,
                                        .coefs = correct_coefs_->data,
                                        .tokens = step.tokens,
                                        .first = step.buffers.normed,
                                        .factors = correct_scale_->data},
                                       step);
                        }});
}

void BlockStreams::append_add(Operations& operations) const {
  operations.push_back({std::string(MixStreams::name), [this](const Step& step) {
                          correct_.run({.x = step.buffers.streams,
                                        .row = step.buffers.normed,
                                        .base = add_base_->data,
                                        .tokens = step.tokens,
                                        .first = step.buffers.hidden},
                                       step);
                        }});
}

StreamOutput::StreamOutput(Planner& planner, const ModelConfig& config)
    : hidden_(config.hidden), match_(planner.resolve<MixStreams>({hidden_, MixStreams::Inputs::matched})) {
  for (std::int64_t stream = 1; stream < streams; ++stream) {
    project_.push_back(planner.linear("altup_unembd_proj",
                                      {{.name = "altup_unembd_proj",
                                        .n = hidden_,
                                        .rows = Selection::run({(stream - 1) * hidden_, hidden_}, (streams - 1) * hidden_),
                                        .shape = Shape{streams - 1, hidden_, hidden_}}},
                                      hidden_));
  }
  mean_ = matrix(planner, streams,
                 [](std::int64_t b, std::int64_t) { return b == 0 ? 1.0f / static_cast<float>(streams) : 0.0f; });
  planner.buffers().need(BufferName::gathered, streams * hidden_);
}

void StreamOutput::append(Operations& operations) const {
  operations.push_back({project_.front().kind(), [this](const Step& step) {
                          std::int64_t at = 0;
                          for (const Linear& project : project_) {
                            at += hidden_;
                            project.run_strided(step, step.buffers.streams + at, streams * hidden_,
                                                step.buffers.gathered + at, {}, false, streams * hidden_);
                          }
                        }});
  operations.push_back({std::string(MixStreams::name), [this](const Step& step) {
                          match_.run({.x = step.buffers.gathered,
                                      .row = step.buffers.hidden,
                                      .base = mean_->data,
                                      .tokens = step.tokens,
                                      .first = step.buffers.hidden},
                                     step);
                        }});
}

}  // namespace rocmforge
