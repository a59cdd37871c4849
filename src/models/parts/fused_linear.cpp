#include "models/parts/fused_linear.h"

namespace rocmforge {

std::string_view Norm::kind() const {
  return std::holds_alternative<Resolved<RmsNorm>>(operation) ? RmsNorm::name : LayerNorm::name;
}

void Norm::run(std::int64_t rows, const float* x, float* out, const Step& step) const {
  if (const auto* rms = std::get_if<Resolved<RmsNorm>>(&operation)) {
    rms->run({x, rows, weight->data, out}, step);
  } else {
    std::get<Resolved<LayerNorm>>(operation).run({x, rows, weight->data, bias != nullptr ? bias->data : nullptr, out}, step);
  }
}

void Norm::run_strided(std::int64_t rows, float* x, std::int64_t stride, const Step& step) const {
  if (const auto* rms = std::get_if<Resolved<RmsNorm>>(&operation)) {
    rms->run({x, rows, weight->data, x, stride}, step);
  } else {
    std::get<Resolved<LayerNorm>>(operation).run({x, rows, weight->data, bias != nullptr ? bias->data : nullptr, x, stride},
                                                 step);
  }
}

void Norm::append(Operations& operations, float* Buffers::*x, float* Buffers::*out) const {
  operations.push_back({std::string(kind()),
                        [this, x, out](const Step& step) { run(step.tokens, step.buffers.*x, step.buffers.*out, step); }});
}

void Norm::run_residual(std::int64_t rows, const float* x, const float* residual, float factor, float scale, float* out,
                        const Step& step) const {
  std::get<Resolved<RmsNorm>>(operation).run(
      {.x = x, .rows = rows, .weight = weight->data, .out = out, .residual = residual, .factor = factor, .scale = scale},
      step);
}

void Norm::append_residual(Operations& operations, float* Buffers::*x, float* Buffers::*out, float factor,
                           float scale) const {
  operations.push_back({std::string(kind()), [this, x, out, factor, scale](const Step& step) {
                          float* sums = step.buffers.*out;
                          run_residual(step.tokens, step.buffers.*x, sums, factor, scale, sums, step);
                        }});
}

void LinearLimits::limit(const Step& step, float* x, const WeightVector& least, const WeightVector& most) const {
  const auto width = static_cast<std::int64_t>(least.count());
  operation.run({.x = x, .count = step.tokens * width, .width = width, .least = least.data, .most = most.data}, step);
}

void SwigluLimits::limit(const Step& step, float* gate_up, std::int64_t rows) const {
  operation.run({.x = gate_up, .count = rows * 2 * width, .width = 2 * width, .least = least->data, .most = most->data},
                step);
}

void SwigluLimits::limit(const Step& step, float* gate, float* up, std::int64_t rows) const {
  const std::int64_t count = rows * width;
  operation.run({.x = gate, .count = count, .width = width, .least = least->data, .most = most->data}, step);
  operation.run({.x = up, .count = count, .width = width, .least = least->data + width, .most = most->data + width}, step);
}

void FusedLinear::append(Operations& operations, float* Buffers::*x, float* Buffers::*out) const {
  if (norm) {
    operations.push_back({std::string(norm->kind()), [this, x](const Step& step) { normalise(step, x); }});
  }
  if (limits) {
    operations.push_back(
        {std::string(Scale::name), [this](const Step& step) { limits->limit_input(step, step.buffers.normed); }});
  }
  operations.push_back({linear.kind(), [this, x, out](const Step& step) { multiply(step, x, out); }});
  if (limits) {
    float* Buffers::*limited = gate ? &Buffers::projected : out;
    operations.push_back({std::string(Scale::name),
                          [this, limited](const Step& step) { limits->limit_output(step, step.buffers.*limited); }});
  }
  if (swiglu_limits) {
    operations.push_back({std::string(Scale::name),
                          [this](const Step& step) { swiglu_limits->limit(step, step.buffers.projected, step.tokens); }});
  }
  if (cut) {
    operations.push_back({std::string(CutRows::name), [this](const Step& step) {
                            cut->run({.x = step.buffers.projected, .rows = step.tokens, .stride = linear.width()}, step);
                          }});
  }
  if (gate) {
    operations.push_back({std::string(GatedActivation::name), [this, out](const Step& step) { activate(step, out); }});
  }
}

void FusedLinear::append_strided(Operations& operations, float* Buffers::*x, std::int64_t stride,
                                 float* Buffers::*out) const {
  operations.push_back({std::string(norm->kind()), [this, x, stride](const Step& step) {
                          if (!step.fuses(fusions.norm_tokens)) {
                            norm->run_strided(step.tokens, step.buffers.*x, stride, step);
                          }
                        }});
  operations.push_back({linear.kind(), [this, x, stride, out](const Step& step) {
                          linear.run_strided(step, step.buffers.*x, stride, step.buffers.*out, fused_norm(step));
                        }});
}

LinearFusion FusedLinear::fused_norm(const Step& step) const {
  if (!norm || !step.fuses(fusions.norm_tokens)) {
    return {};
  }
  return {.norm_weight = norm->weight->data, .norm_eps = std::get<Resolved<RmsNorm>>(norm->operation).spec.eps};
}

void FusedLinear::normalise(const Step& step, float* Buffers::*x) const {
  if (!step.fuses(fusions.norm_tokens)) {
    norm->run(step.tokens, step.buffers.*x, step.buffers.normed, step);
  }
}

void FusedLinear::multiply(const Step& step, float* Buffers::*x, float* Buffers::*out) const {
  LinearFusion fusion = fused_norm(step);
  const float* from = norm && fusion.norm_weight == nullptr ? step.buffers.normed : step.buffers.*x;
  if (sum != nullptr && sum->joined(step)) {
    fusion.post_norm = sum->post_norm(step);
    from = sum->before(step);
  }
  if (gate && step.fuses(fusions.gate_tokens)) {
    fusion.gate = gate->spec.activation;
  }
  linear.run(step, from, gate && !fusion.gate ? step.buffers.projected : step.buffers.*out, fusion);
}

void FusedLinear::activate(const Step& step, float* Buffers::*out) const {
  if (!step.fuses(fusions.gate_tokens)) {
    const float* projected = step.buffers.projected;
    const float* up = gate->spec.gated ? projected + gate->spec.width : projected;
    gate->run({gate->spec.gated ? projected : nullptr, up, step.tokens, linear.width(), step.buffers.*out}, step);
  }
}

}  // namespace rocmforge
