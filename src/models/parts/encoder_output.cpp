#include "models/parts/encoder_output.h"

#include <string>

namespace rocmforge {

EncoderOutput::EncoderOutput(Planner& planner, const ModelConfig& config)
    : gather_(planner.resolve_for_prompts<GatherRows>({config.hidden})) {
  BufferPlan& buffers = planner.buffers();
  for (const BufferName buffer : {BufferName::hidden, BufferName::normed, BufferName::projected}) {
    buffers.need(buffer, config.hidden);
  }
  float* Buffers::*states = config.encoder.labels > 0 ? &Buffers::normed : &Buffers::projected;
  operations_.push_back(
      {std::string(GatherRows::name), [this, states](const Step& step) {
         gather_.run({step.buffers.hidden, step.arrays->hidden_rows, step.tokens, step.buffers.*states}, step);
       }});
  if (!config.output_norm.empty()) {
    norm_ = planner.norm({config.output_norm, config.norm_kind, config.norm_eps, config.norm_needs_bias}, config.hidden);
    norm_->append(operations_, states, states);
  }
  if (config.encoder.labels > 0) {
    plan_head(planner, config);
  } else if (config.encoder.dense_out > 0) {
    plan_dense(planner, config);
  }
}

void EncoderOutput::plan_dense(Planner& planner, const ModelConfig& config) {
  const EncoderConfig& encoder = config.encoder;
  planner.buffers().need(BufferName::gathered, encoder.dense_width);
  planner.buffers().need(BufferName::projected, encoder.dense_out);
  first_ = planner.linear("dense_2", {{"dense_2", encoder.dense_width}}, config.hidden);
  second_ = planner.linear("dense_3", {{"dense_3", encoder.dense_out}}, encoder.dense_width);
  append_linear(first_, &Buffers::projected, &Buffers::gathered);
  append_linear(second_, &Buffers::gathered, &Buffers::projected);
}

// From Buffers::normed.
void EncoderOutput::plan_head(Planner& planner, const ModelConfig& config) {
  const EncoderConfig& encoder = config.encoder;
  const bool has_second = planner.weights().has_tensor("cls.output.weight");
  const std::int64_t width = has_second ? config.hidden : encoder.labels;
  planner.buffers().need(BufferName::gathered, config.hidden);
  planner.buffers().need(BufferName::projected, encoder.labels);
  float* Buffers::*inner = &Buffers::normed;
  if (planner.weights().has_tensor("cls.weight")) {
    inner = has_second ? &Buffers::gathered : &Buffers::projected;
    first_ = planner.linear("cls", {{"cls", width}}, config.hidden);
    append_linear(first_, &Buffers::normed, inner);
    if (encoder.gelu_head) {
      gelu_ = planner.resolve<GatedActivation>({Activation::gelu, width, false});
      head_norm_ = planner.norm({"cls.norm", config.norm_kind, config.norm_eps}, width);
      operations_.push_back({std::string(GatedActivation::name), [this, width](const Step& step) {
                               const Buffers& buffers = step.buffers;
                               gelu_->run({nullptr, buffers.gathered, step.tokens, width, buffers.normed}, step);
                             }});
      inner = &Buffers::normed;
      head_norm_->append(operations_, inner, inner);
    } else {
      tanh_ = planner.resolve_for_width<Scale>({}, 2 * width);
      operations_.push_back({std::string(Scale::name), [this, inner, width](const Step& step) {
                               tanh_->run({.x = step.buffers.*inner, .count = step.tokens * width, .soft_cap = 1.0f}, step);
                             }});
    }
  }
  if (has_second) {
    second_ = planner.linear("cls.output", {{"cls.output", encoder.labels}}, config.hidden);
    append_linear(second_, inner, &Buffers::projected);
  }
}

void EncoderOutput::append_linear(const Linear& linear, float* Buffers::*from, float* Buffers::*to) {
  operations_.push_back(
      {linear.kind(), [&linear, from, to](const Step& step) { linear.run(step, step.buffers.*from, step.buffers.*to); }});
}

}  // namespace rocmforge
