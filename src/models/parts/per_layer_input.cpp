#include "models/parts/per_layer_input.h"

#include <cmath>
#include <numbers>

#include "models/parts/block.h"

namespace rocmforge {

PerLayerEmbedding::PerLayerEmbedding(Planner& planner, const ModelConfig& config)
    : layers_(config.layers), width_(config.per_layer_width) {
  const std::int64_t row = layers_ * width_;
  table_ = planner.embedding("per_layer_token_embd.weight", config.vocab, row);
  planner.buffers().need(BufferName::per_layer, row);
  project_ = planner.linear("per_layer_model_proj", {{"per_layer_model_proj", row}}, config.hidden);
  // norm(x / sqrt(hidden)) with eps is norm(x) with hidden * eps.
  NormName name{"per_layer_proj_norm", NormKind::rms, config.norm_eps * static_cast<float>(config.hidden)};
  name.factor = 1.0f / std::numbers::sqrt2_v<float>;
  norm_ = planner.norm(name, width_);
}

void PerLayerEmbedding::append(Operations& operations) const {
  operations.push_back(
      {project_.kind(), [this](const Step& step) { project_.run(step, step.buffers.hidden, step.buffers.per_layer); }});
  operations.push_back({std::string(norm_.kind()), [this](const Step& step) {
                          norm_.run(step.tokens * layers_, step.buffers.per_layer, step.buffers.per_layer, step);
                        }});
  operations.push_back({std::string(EmbeddingRows::name), [this](const Step& step) {
                          table_->operation.run({.ids = step.arrays->tokens,
                                                 .tokens = step.tokens,
                                                 .table = table_->data,
                                                 .scale = std::sqrt(static_cast<float>(width_) / 2.0f),
                                                 .out = step.buffers.per_layer,
                                                 .drawn = step.buffers.sampled,
                                                 .add = true},
                                                step);
                        }});
}

PerLayerInput::PerLayerInput(Planner& planner, const ModelConfig& config, int index)
    : stream_(config.residual_streams > 1 ? &Buffers::normed : &Buffers::hidden),
      width_(config.per_layer_width),
      offset_(index * width_),
      stride_(config.layers * width_) {
  const LayerConfig& layer = config.layer(index);
  const std::string name = block_tensor(index, "inp_gate");
  planner.buffers().need(BufferName::projected, width_);
  planner.buffers().need(BufferName::gathered, width_);
  gate_ = planner.fused_linear(name, std::nullopt, {{name, width_}}, config.hidden);
  activation_ = planner.resolve<GatedActivation>({layer.feed_forward.activation, width_, true});
  if (config.residual_streams > 1) {
    output_ = ResidualOutput(planner, config, index, {.linear = "proj", .k = width_, .into = stream_});
    norm_ = planner.norm(*block_norm(config, index, "post_norm"), config.hidden);
  } else {
    output_ = ResidualOutput(planner, config, index,
                             {.linear = "proj", .k = width_, .norm = "post_norm", .output_scale = layer.graph.output_scale});
  }
}

void PerLayerInput::append(Operations& operations) const {
  gate_.append(operations, stream_, &Buffers::projected);
  operations.push_back({std::string(GatedActivation::name), [this](const Step& step) { activate(step); }});
  output_.append(operations);
  if (norm_) {
    norm_->append(operations, stream_, stream_);
  }
}

void PerLayerInput::activate(const Step& step) const {
  activation_.run({.gate = step.buffers.projected,
                   .up = step.buffers.per_layer + offset_,
                   .tokens = step.tokens,
                   .stride = width_,
                   .out = step.buffers.gathered,
                   .up_stride = stride_},
                  step);
}

}  // namespace rocmforge
