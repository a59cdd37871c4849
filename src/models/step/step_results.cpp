#include "models/step/step_results.h"

#include <cstddef>

namespace rocmforge {
namespace {

std::size_t elements(std::int32_t rows, std::int64_t width) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
}

}  // namespace

void StepResults::begin(const BatchPlan& batch) {
  logit_rows_ = batch.num_logit_rows();
  hidden_rows_ = static_cast<std::int32_t>(batch.hidden_rows.size());
  raw_rows_ = static_cast<std::int32_t>(batch.raw_rows.size());
}

void StepResults::reserve_raw_logits(std::size_t rows, std::int64_t vocab, Rank& device) {
  const std::size_t bytes = rows * elements(1, vocab) * sizeof(float);
  if (raw_logits_.size_bytes() < bytes) {
    device.wait();  // an earlier copy may still write to it
    raw_logits_ = {};
    raw_logits_ = device.device().allocate_pinned(bytes);
  }
}

void StepResults::keep_raw_logits(std::span<const std::int32_t> rows, std::int64_t vocab, Rank& output) {
  const std::size_t row_bytes = elements(1, vocab) * sizeof(float);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    output.copy_to_host(raw_logits_.data() + i * row_bytes, output.buffers().logits + rows[i] * vocab, row_bytes);
  }
}

std::span<const float> StepResults::logits(const ModelConfig& config, Rank& output) {
  return output.read_back(output.buffers().logits, elements(logit_rows_, config.vocab), logits_);
}

std::span<const float> StepResults::hidden(const ModelConfig& config, Rank& output) {
  return output.read_back(output.buffers().projected, elements(hidden_rows_, config.state_width()), hidden_);
}

std::span<const float> StepResults::raw_logits(const ModelConfig& config) const {
  return {raw_logits_.as<float>(), elements(raw_rows_, config.vocab)};
}

}  // namespace rocmforge
