#include "checks/placed_layer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "checks/inputs.h"
#include "checks/placed.h"
#include "checks/problem.h"

namespace rocmforge {
namespace {

constexpr const char* layer_purpose = "a check's arrays";

constexpr float layer_norm_eps = 1e-5f;

/// The array that a product writes.
const std::vector<float>& written(const LayerState& state, LayerProduct product) {
  return product == LayerProduct::gate_up ? state.gate : product == LayerProduct::qkv ? state.qkv : state.hidden;
}

/// Of the elements that a product writes. Gate and up of experts are two products, each with an error of its own.
double tolerance_of(const LayerProducts& layer, LayerProduct product) {
  if (layer.experts && product == LayerProduct::gate_up) {
    return 4.0 * type_tolerance(layer.experts->gate_up.weight);
  }
  if (layer.experts && product == LayerProduct::down) {
    return 2.0 * type_tolerance(layer.experts->down.weight);
  }
  double tolerance = 0.0;
  for (const Matmul::Spec& spec : layer[product]) {
    tolerance = std::max(tolerance, matmul_tolerance(spec.weight, true));
  }
  return tolerance;
}

}  // namespace

bool same_bits(const LayerState& a, const LayerState& b) {
  const auto same = [](const std::vector<float>& one, const std::vector<float>& other) {
    return one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0;
  };
  return same(a.hidden, b.hidden) && same(a.gate, b.gate) && same(a.qkv, b.qkv);
}

LayerInputs::LayerInputs(const LayerProducts& layer) {
  Random random(31);
  for (const std::vector<Matmul::Spec>& call : layer.calls) {
    for (const Matmul::Spec& spec : call) {
      weights.push_back(random_weight(spec.weight, spec.n, spec.k, random));
      bytes += static_cast<double>(weights.back().size());
    }
  }
  if (layer.experts) {
    experts.emplace(*layer.experts);
    for (const std::vector<std::byte>& weight : experts->weights) {
      bytes += static_cast<double>(weight.size());
    }
  }
  const std::int64_t hidden = layer.rows(LayerProduct::attention_output);
  norm = random.uniforms(hidden, 0.5f, 1.5f);
  state = {random.uniforms(hidden, -1.0f, 1.0f), random.uniforms(layer.gate_elems(), -1.0f, 1.0f),
           random.uniforms(layer.rows(LayerProduct::qkv), -1.0f, 1.0f)};
}

LayerKernels kernels_of(const LayerProducts& layer) {
  return {.dense = layer.kernel,
          .norm = layer.norms ? layer.norms->kernel : nullptr,
          .router = layer.experts ? layer.experts->router : nullptr,
          .experts = layer.experts ? layer.experts->kernel : nullptr};
}

PlacedLayer::PlacedLayer(CheckBench& bench, const LayerProducts& layer, const LayerInputs& inputs,
                         const LayerKernels& kernels)
    : layer_(&layer),
      kernel_(kernels.dense),
      norm_kernel_(kernels.norm),
      device_(kernel_->device() == DeviceKind::cpu ? &bench.host() : &bench.device()),
      context_(kernel_->device() == DeviceKind::cpu ? &bench.host_context() : &bench.context()),
      norm_(placed(*device_, inputs.norm, layer_purpose)),
      hidden_(placed(*device_, inputs.state.hidden, layer_purpose)),
      gate_(placed(*device_, inputs.state.gate, layer_purpose)),
      qkv_(placed(*device_, inputs.state.qkv, layer_purpose)),
      projected_(placed(*device_, inputs.state.hidden, layer_purpose)) {
  auto rows = inputs.weights.begin();
  std::size_t workspace = 1;
  for (const std::vector<Matmul::Spec>& call : layer.calls) {
    for (const Matmul::Spec& spec : call) {
      workspace = std::max(workspace, kernel_->workspace_bytes(1, spec.k));
      weights_.push_back(place_weight(spec, *rows++, bench.host_context()));
    }
  }
  workspace_ = device_->allocate(workspace, "a check's workspace");
  if (layer.experts) {
    experts_.emplace(*device_, bench.host_context(), *layer.experts, *inputs.experts, *kernels.router, *kernels.experts);
  }
}

void PlacedLayer::set(const LayerState& state) {
  write(hidden_, state.hidden);
  write(gate_, state.gate);
  write(qkv_, state.qkv);
}

LayerState PlacedLayer::state() {
  LayerState state;
  state.hidden = read(hidden_);
  state.gate = read(gate_);
  state.qkv = read(qkv_);
  return state;
}

void PlacedLayer::call(LayerProduct product) {
  switch (product) {
    case LayerProduct::attention_output:
      return call_and_add(product, qkv_);
    case LayerProduct::gate_up:
      return experts_ ? experts_->gate_up(hidden_.as<float>(), gate_.as<float>(), *context_)
                      : call(product, hidden_, gate_, true, false);
    case LayerProduct::down:
      return experts_ ? experts_->down(gate_.as<float>(), hidden_.as<float>(), *context_)
                      : call_and_add(product, gate_);
    case LayerProduct::qkv:
      return call(product, hidden_, qkv_, true, false);
  }
}

void PlacedLayer::run(int repetitions) {
  for (int i = 0; i < repetitions; ++i) {
    for (const LayerProduct product : all_layer_products) {
      call(product);
    }
  }
}

std::int64_t PlacedLayer::launches() const { return stream() == nullptr ? 0 : device_->driver().counters().launches; }

DeviceBuffer PlacedLayer::place_weight(const Matmul::Spec& spec, const std::vector<std::byte>& rows,
                                       ExecutionContext& host) {
  std::vector<std::byte> stored(kernel_->stored_bytes(spec));
  kernel_->store(spec, rows.data(), stored.data(), host);
  return placed(*device_, stored, layer_purpose);
}

void PlacedLayer::write(const DeviceBuffer& to, const std::vector<float>& values) {
  device_->upload(to.data(), values.data(), values.size() * sizeof(float));
}

std::vector<float> PlacedLayer::read(const DeviceBuffer& from) {
  std::vector<float> values(from.size_bytes() / sizeof(float));
  device_->download(values.data(), from.data(), values.size() * sizeof(float));
  return values;
}

void PlacedLayer::call_and_add(LayerProduct product, const DeviceBuffer& from) {
  if (norm_kernel_ == nullptr) {
    return call(product, from, hidden_, false, true);
  }
  call(product, from, projected_, false, false);
  norm_kernel_->run(layer_->norms->spec,
                    {.x = projected_.as<float>(),
                     .rows = 1,
                     .weight = norm_.as<float>(),
                     .out = hidden_.as<float>(),
                     .residual = hidden_.as<float>()},
                    *context_);
}

void PlacedLayer::call(LayerProduct product, const DeviceBuffer& from, const DeviceBuffer& to, bool normed, bool adds) {
  std::size_t weight = 0;
  for (const LayerProduct before : all_layer_products) {
    weight += before < product ? (*layer_)[before].size() : 0;
  }
  const bool gated = product == LayerProduct::gate_up;
  std::vector<MatmulOutput> outputs;
  std::int64_t first = 0;
  for (const Matmul::Spec& spec : (*layer_)[product]) {
    outputs.push_back({.dtype = spec.weight,
                       .weight = weights_[weight++].data(),
                       .n = spec.n,
                       .out = to.as<float>() + first,
                       .stride = spec.n,
                       .accumulate = adds});
    first += gated ? 0 : spec.n;
  }
  const std::int64_t k = (*layer_)[product][0].k;
  Matmul::Args args{.x = from.as<float>(), .tokens = 1, .k = k, .x_stride = k, .outputs = outputs};
  args.workspace = workspace_.data();
  args.norm_weight = normed ? norm_.as<float>() : nullptr;
  args.norm_eps = layer_norm_eps;
  args.gated = gated;
  kernel_->run(args, *context_);
}

bool compare_products(CheckBench& bench, const LayerProducts& layer, PlacedLayer& tested, PlacedLayer& oracle,
                      CallResult& result) {
  for (const LayerProduct product : all_layer_products) {
    bench.on_phase(CheckPhase::oracle);
    oracle.set(tested.state());
    oracle.call(product);
    const LayerState expected = oracle.state();
    bench.on_phase(CheckPhase::call);
    tested.call(product);
    const std::vector<float>& wanted = written(expected, product);
    const OutputDifference found =
        compare_outputs(written(tested.state(), product), wanted, static_cast<std::int64_t>(wanted.size()),
                        tolerance_of(layer, product), bench.host_context().pool);
    result.elements += found.elements;
    if (!found.right()) {
      result.difference = found;
      result.problem = describe(found, name(product));
      return false;
    }
    if (found.relative >= result.difference.relative) {
      result.difference = found;
    }
  }
  return true;
}

int repetitions_of(const DeviceInfo& device) {
  constexpr int on_a_device = 200;
  constexpr int on_an_emulator = 2;
  return device.vendor_runtime ? on_a_device : on_an_emulator;
}

}  // namespace rocmforge
