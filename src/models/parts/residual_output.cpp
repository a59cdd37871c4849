#include "models/parts/residual_output.h"

#include "base/error.h"
#include "models/parts/block.h"

namespace rocmforge {

ResidualOutput::ResidualOutput(Planner& planner, const ModelConfig& config, int index, const Names& names)
    : into_(names.into), hidden_(config.hidden), scale_(config.layer(index).graph.residual_scale) {
  const std::string name = block_tensor(index, names.linear);
  planner.buffers().need_after_gather(BufferName::projected, hidden_);
  const bool summed = names.summed || !names.columns.whole();
  linear_ = planner.linear(
      name, {{.name = name, .n = hidden_, .needs_bias = names.needs_bias, .columns = names.columns, .summed = summed}},
      names.k);
  limits_ = planner.limits({{.name = name, .n = hidden_}}, names.k);
  if (limits_ && (summed || names.norm.empty())) {
    throw Error(planner.weights().place(name) + ": has limits, which need a norm behind the layer, on one device");
  }
  if (summed) {
    rank_sum_ = planner.rank_sum(hidden_);
  }
  if (into_ != nullptr) {
    return;
  }
  if (!names.factors.empty()) {
    check(names.norm.empty(), "an output has factors or a norm");
    factors_ = planner.vector(block_tensor(index, names.factors) + ".weight", hidden_);
    multiply_ = planner.resolve_for_width<Scale>({}, 2 * hidden_);
  }
  if (const auto norm = block_norm(config, index, names.norm)) {
    norm_ = planner.norm(*norm, hidden_);
  }
  if (const auto norm = block_norm(config, index, names.sum_norm)) {
    sum_norm_ = planner.norm(*norm, hidden_);
  }
  output_scale_ = names.sum_scale;
  if (!names.output_scale.empty()) {
    output_scale_ *= planner.weights().number(block_tensor(index, names.output_scale) + ".weight");
  }
  if (!summed && norm_ && norm_->kind() == RmsNorm::name && !sum_norm_) {
    sum_ = ResidualSum{.norm = *norm_, .factor = scale_, .scale = output_scale_};
    norm_.reset();
  } else if (norm_ || factors_ != nullptr || scale_ != 1.0f || output_scale_ != 1.0f) {
    add_ = planner.resolve_for_width<ResidualAdd>({}, 3 * hidden_);
  }
}

void ResidualOutput::append(Operations& operations) const {
  append_sum(operations);
  if (sum_norm_) {
    sum_norm_->append(operations, &Buffers::hidden, &Buffers::hidden);
  }
}

/// The product's parts become its output in Buffers::projected, or are added where nothing else is to be done.
void ResidualOutput::append_rank_sum(Operations& operations) const {
  operations.push_back(
      {linear_.kind(), [this](const Step& step) { linear_.run(step, step.buffers.gathered, step.buffers.partial); }});
  if (into_ != nullptr) {
    rank_sum_->append(operations, into_, false);
    return;
  }
  rank_sum_->append(operations, add_ ? &Buffers::projected : &Buffers::hidden, !add_);
}

void ResidualOutput::append_factors(Operations& operations) const {
  if (factors_ != nullptr) {
    operations.push_back(
        {std::string(Scale::name), [this](const Step& step) {
           multiply_.run(
               {.x = step.buffers.projected, .count = step.tokens * hidden_, .width = hidden_, .weights = factors_->data},
               step);
         }});
  }
}

void ResidualOutput::append_sum(Operations& operations) const {
  if (rank_sum_) {
    append_rank_sum(operations);
  } else if (into_ != nullptr) {
    operations.push_back(
        {linear_.kind(), [this](const Step& step) { linear_.run(step, step.buffers.gathered, step.buffers.*into_); }});
  } else if (sum_ || add_) {
    const auto output = [this](const Step& step) { return sum_ ? sum_->input(step) : step.buffers.projected; };
    if (limits_) {
      operations.push_back(
          {std::string(Scale::name), [this](const Step& step) { limits_->limit_input(step, step.buffers.gathered); }});
    }
    operations.push_back(
        {linear_.kind(), [this, output](const Step& step) { linear_.run(step, step.buffers.gathered, output(step)); }});
    if (limits_) {
      operations.push_back(
          {std::string(Scale::name), [this, output](const Step& step) { limits_->limit_output(step, output(step)); }});
    }
  } else {
    linear_.append_residual(operations, &Buffers::gathered, &Buffers::hidden);
  }
  if (sum_) {
    sum_->append(operations);
  }
  if (!add_) {
    return;
  }
  append_factors(operations);
  if (norm_) {
    norm_->append(operations, &Buffers::projected, &Buffers::projected);
  }
  operations.push_back({std::string(ResidualAdd::name), [this](const Step& step) {
                          const Buffers& buffers = step.buffers;
                          add_->run({.a = buffers.hidden,
                                     .b = buffers.projected,
                                     .count = step.tokens * hidden_,
                                     .out = buffers.hidden,
                                     .factor = scale_,
                                     .scale = output_scale_},
                                    step);
                        }});
}

}  // namespace rocmforge
