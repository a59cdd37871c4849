#include "models/adapters/separate_experts.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace rocmforge {
namespace {

/// The product alone, each slot as a token of one slot.
ExpertMatmul::Spec single_slots(const ExpertMatrix& matrix) {
  ExpertMatmul::Spec spec = matrix.spec;
  spec.used = 1;
  spec.alone = false;
  return spec;
}

void clear(const Step& step, float* rows, std::int64_t count) {
  const std::size_t size_bytes = static_cast<std::size_t>(count) * sizeof(float);
  if (step.context->stream != nullptr) {
    step.context->stream->fill(rows, 0, size_bytes);
  } else {
    std::memset(rows, 0, size_bytes);
  }
}

DeviceBuffer allocate(const AdapterDevice& where, std::size_t size_bytes) {
  return size_bytes > 0 ? where.device->allocate(size_bytes, "products of experts for adapters") : DeviceBuffer();
}

template <class T>
DeviceBuffer uploaded(const AdapterDevice& where, const std::vector<T>& values) {
  DeviceBuffer buffer = allocate(where, values.size() * sizeof(T));
  where.device->upload(buffer.data(), values.data(), values.size() * sizeof(T));
  return buffer;
}

}  // namespace

void SeparateExperts::prepare(const WeightTable& weights, const AdapterDevice& where) {
  if (prepared_) {
    return;
  }
  activations_.resize(weights.expert_matrices().size());
  std::int64_t most_inputs = 0, most_products = 0, most_slots = 0;
  std::size_t workspace_bytes = 0, order_bytes = 0;
  for (const ExpertMatrix& matrix : weights.expert_matrices()) {
    if (!matrix.activation) {
      continue;
    }
    activations_[matrix.index] = {*matrix.activation, with_context(weights.place(matrix.tensors[0]->name), [&] {
                                    return where.registry->choose<GatedActivation>(*matrix.activation, *where.info).kernel;
                                  })};
    const ExpertMatmul::Spec spec = single_slots(matrix);
    // One takes rows of any length.
    gather_.kernel = where.registry->choose<GatherRows>({.dim = spec.k}, *where.info).kernel;
    const std::int64_t slots = where.rows * matrix.spec.used;
    most_slots = std::max(most_slots, slots);
    most_inputs = std::max(most_inputs, slots * spec.k);
    most_products = std::max(most_products, slots * spec.n);
    workspace_bytes = std::max(workspace_bytes, matrix.kernel->workspace_bytes(spec, slots));
    order_bytes = std::max(order_bytes, matrix.kernel->order_bytes(spec, slots));
    if (!tokens_of_.contains(matrix.spec.used)) {
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(slots));
      for (std::int64_t slot = 0; slot < slots; ++slot) {
        tokens[static_cast<std::size_t>(slot)] = static_cast<std::int32_t>(slot / matrix.spec.used);
      }
      tokens_of_.emplace(matrix.spec.used, uploaded(where, tokens));
    }
  }
  if (most_slots == 0) {  // they stand apart already
    return;
  }
  inputs_ = allocate(where, static_cast<std::size_t>(most_inputs) * sizeof(float));
  products_ = allocate(where, 2 * static_cast<std::size_t>(most_products) * sizeof(float));
  ones_ = uploaded(where, std::vector<float>(static_cast<std::size_t>(most_slots), 1.0f));
  workspace_ = allocate(where, workspace_bytes);
  order_ = allocate(where, order_bytes);
  where.device->finish_uploads();
  prepared_ = true;
}

const float* SeparateExperts::inputs(const Step& step, const ExpertMatrix& matrix, const float* x) const {
  if (matrix.spec.used == 1) {
    return x;
  }
  const GatherRows::Args args{.x = x,
                              .ids = tokens_of_.at(matrix.spec.used).as<std::int32_t>(),
                              .count = step.tokens * matrix.spec.used,
                              .out = inputs_.as<float>()};
  gather_.kernel->run({.dim = matrix.spec.k}, args, *step.context);
  return inputs_.as<float>();
}

float* SeparateExperts::multiply(const Step& step, const ExpertMatrix& matrix, std::size_t place,
                                 const float* inputs) const {
  const std::int64_t slots = step.tokens * matrix.spec.used;
  float* const out = products(step, matrix, place);
  clear(step, out, slots * matrix.spec.n);  // down adds to what is there
  const ExpertWeight weights[] = {matrix.weight()};
  matrix.kernel->run({.x = inputs,
                      .tokens = slots,
                      .k = matrix.spec.k,
                      .used = 1,
                      .experts = matrix.spec.experts,
                      .ids = step.buffers.experts,
                      .weights = weights,
                      .shares = ones_.as<float>(),
                      .out = out,
                      .workspace = workspace_.data(),
                      .order = order_.data()},
                     *step.context);
  return out;
}

void SeparateExperts::activate(const Step& step, std::span<const ExpertMatrix* const> matrices, float* out) const {
  const ExpertMatrix& up = *matrices.back();
  const Resolved<GatedActivation>& activation = *activations_[up.index];
  activation.run({.gate = activation.spec.gated ? products(step, *matrices[0], 0) : nullptr,
                  .up = products(step, up, matrices.size() - 1),
                  .tokens = step.tokens * up.spec.used,
                  .stride = up.spec.n,
                  .out = out},
                 step);
}

}  // namespace rocmforge
