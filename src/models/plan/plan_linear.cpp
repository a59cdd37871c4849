#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/plan/planner.h"
#include "models/plan/weight_choice.h"

namespace rocmforge {
namespace {

/// The positive x with x / (1 + e^-x) = y, for a positive y.
float silu_inverse(double y) {
  double least = y;       // silu(x) < x
  double most = y + 1.0;  // silu(x) > x - 0.3
  constexpr int halvings = 60;
  for (int i = 0; i < halvings; ++i) {
    const double middle = 0.5 * (least + most);
    (middle / (1.0 + std::exp(-middle)) < y ? least : most) = middle;
  }
  return static_cast<float>(most);
}

}  // namespace

Linear Planner::linear(std::string_view operation, const std::vector<LinearName>& names, std::int64_t k) {
  auto [linear, planned] = choose_linear(operation, names, k);
  plan_->report.add(std::move(planned));
  return linear;
}

FusedLinear Planner::fused_linear(std::string_view operation, const std::optional<NormName>& norm,
                                  const std::vector<LinearName>& names, std::int64_t k,
                                  const std::optional<GatedActivation::Spec>& gate, float swiglu_limit,
                                  const std::optional<float>& cut) {
  auto [linear, planned] = choose_linear(operation, names, k);
  const std::string_view kind = operation_kind(operation);
  FusedLinear fused;
  fused.limits = limits(names, k);
  if (fused.limits && !norm) {
    throw Error(fmt::format("{}: has limits, which need a norm before the layer", weights().place(names.front().name)));
  }
  fused.fusions = fused.limits ? MatmulFusions{} : linear.fusions();
  if (norm && norm->kind == NormKind::layer) {
    fused.fusions.norm_tokens = 0;
    fused.norm = this->norm(*norm, k);
  } else if (norm) {
    fused.norm = Norm{resolve_part<RmsNorm>({k, norm->eps}, kind, fused.fusions.norm_tokens), norm_weight(*norm, k)};
  } else {
    fused.fusions.norm_tokens = 0;
  }
  if (gate && (gate->activation == Activation::gelu || gate->activation == Activation::gelu_quick)) {
    fused.fusions.gate_tokens = 0;  // products fuse only silu and gelu_tanh
  }
  if (swiglu_limit > 0.0f) {
    check(gate && gate->gated && gate->activation == Activation::silu, "the limits are those of a SwiGLU");
    fused.fusions.gate_tokens = 0;
    fused.swiglu_limits = swiglu_limits(gate->width, swiglu_limit);
  }
  if (cut) {
    check(gate && gate->gated, "gates are cut");
    fused.fusions.gate_tokens = 0;
    fused.cut = resolve<CutRows>({gate->width, *cut});
  }
  if (gate && fused.fusions.gate_tokens > 0) {
    planned.activation_bytes -= static_cast<std::size_t>(gate->width) * sizeof(float);
  }
  plan_->report.add(std::move(planned));
  if (gate) {
    check(linear.width() == (gate->gated ? 2 : 1) * gate->width, "the layers are as wide as what is activated");
    fused.gate = resolve_part<GatedActivation>(*gate, kind, fused.fusions.gate_tokens);
  }
  fused.linear = std::move(linear);
  return fused;
}

std::optional<LinearLimits> Planner::limits(const std::vector<LinearName>& names, std::int64_t k) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  struct Ends {
    std::int64_t rows;
    float least;
    float most;
  };
  std::vector<Ends> outputs;
  float least_in = -infinity;
  float most_in = infinity;
  for (const LinearName& layer : names) {
    const auto limit = [&](std::string_view part, float none) {
      const std::string name = layer.name + std::string(part);
      return weights().has_tensor(name) ? weights().limit(name) : none;
    };
    const float least = limit(".input_min", -infinity);
    const float most = limit(".input_max", infinity);
    if (&layer != &names.front() && (least != least_in || most != most_in)) {
      throw Error(fmt::format("{} and {} have the same input, but other limits of it", weights().place(names.front().name),
                              layer.name));
    }
    least_in = least;
    most_in = most;
    outputs.push_back({layer.n, limit(".output_min", -infinity), limit(".output_max", infinity)});
  }
  const auto is_open = [](const Ends& ends) { return ends.least == -infinity && ends.most == infinity; };
  if (least_in == -infinity && most_in == infinity && std::ranges::all_of(outputs, is_open)) {
    return std::nullopt;
  }
  std::vector<float> least_out;
  std::vector<float> most_out;
  for (const Ends& ends : outputs) {
    least_out.insert(least_out.end(), static_cast<std::size_t>(ends.rows), ends.least);
    most_out.insert(most_out.end(), static_cast<std::size_t>(ends.rows), ends.most);
  }
  const auto inputs = static_cast<std::size_t>(k);
  LinearLimits limits{resolve_for_width<Scale>({}, 2 * k)};
  limits.least_in = weights().computed(std::vector<float>(inputs, least_in));
  limits.most_in = weights().computed(std::vector<float>(inputs, most_in));
  limits.least_out = weights().computed(std::move(least_out));
  limits.most_out = weights().computed(std::move(most_out));
  return limits;
}

SwigluLimits Planner::swiglu_limits(std::int64_t width, float limit, std::int64_t rows) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto half = static_cast<std::size_t>(width);
  std::vector<float> least(half, -infinity);
  std::vector<float> most(half, silu_inverse(limit));
  least.insert(least.end(), half, -limit);
  most.insert(most.end(), half, limit);
  SwigluLimits limits{.operation = resolve_for_width<Scale>({}, 4 * width * rows), .width = width};
  limits.least = weights().computed(std::move(least));
  limits.most = weights().computed(std::move(most));
  return limits;
}

std::pair<Linear, PlannedOperation> Planner::choose_linear(std::string_view operation, const std::vector<LinearName>& names,
                                                           std::int64_t k) {
  std::vector<Linear::Part> parts;
  std::vector<Refusal> refusals;
  std::vector<std::string> specs;
  std::vector<std::string> kernels;
  std::vector<KernelRegistry::AnyUse> uses;
  std::size_t weight_bytes = 0;
  std::int64_t activations = 0;
  for (const LinearName& layer : names) {
    const MatmulWeight* weight = matmul_weight(layer, k, refusals);
    parts.push_back(with_bias(*weight, layer));
    activations += weight->spec.n;
    weight_bytes += weight->kernel->stored_bytes(weight->spec);
    specs.push_back(to_string(weight->spec));
    uses.emplace_back(KernelUse<Matmul>{weight->spec, weight->kernel});
    if (const std::string kernel(weight->kernel->name()); kernels.empty() || kernels.back() != kernel) {
      kernels.push_back(kernel);
    }
  }
  activations += parts[0].weight->spec.k;
  plan_->report.add_weight_bytes(weight_bytes);
  return {Linear(std::string(operation_kind(operation)), parts),
          {.operation = std::string(operation),
           .spec = fmt::format("{}", fmt::join(specs, " + ")),
           .kernel = fmt::format("{}", fmt::join(kernels, " + ")),
           .refusals = std::move(refusals),
           .weight_bytes = weight_bytes,
           .activation_bytes = static_cast<std::size_t>(activations) * sizeof(float),
           .uses = std::move(uses)}};
}

/// The bias of outputs that ranks sum is added by the first rank alone.
Linear::Part Planner::with_bias(const MatmulWeight& weight, const LinearName& layer) {
  const std::string name = layer.name + ".bias";
  if (layer.summed && share().rank > 0) {
    weights().pass_over(name);
    return {&weight};
  }
  const bool has_bias = layer.needs_bias || weights().has_tensor(name);
  // Files have the bias of a convolution over time as a column.
  const Shape shape = layer.shape.rank() == 3 ? Shape{layer.n, 1} : Shape{layer.n};
  return {&weight, has_bias ? floats(name, shape, layer.rows) : nullptr};
}

MatmulWeight Planner::find_weight(const LinearName& layer, std::int64_t k) {
  const std::string name = layer.name + ".weight";
  MatmulWeight weight;
  weight.rows = layer.rows;
  weight.columns = layer.columns;
  weight.transposed = layer.transposed;
  weight.pieces = layer.pieces;
  weight.interleaved = layer.interleaved;
  const std::int64_t rows = layer.rows.whole() ? layer.n : layer.rows.of;
  const std::int64_t columns = layer.columns.whole() ? k : layer.columns.of;
  const Shape of_file = layer.transposed ? Shape{columns, rows} : Shape{rows, columns};
  weight.tensor = &weights().tensor(name, layer.shape.rank() > 0 ? layer.shape : of_file);
  weight.spec = {weight.tensor->tensor.dtype, layer.n, k};
  check(layer.rows.whole() || layer.rows.count() == layer.n, "the layer has as many rows as are selected");
  check(layer.columns.whole() || layer.columns.count() == k, "the layer's input has as many columns as are selected");
  check((!layer.transposed && layer.interleaved == 1) || (layer.rows.whole() && layer.columns.whole()),
        "a tensor whose columns change places is taken whole");
  if (layer.interleaved > 1 && info(weight.spec.weight).block_elems != 1) {
    weight.spec.weight = DType::f32;
  }
  if (layer.transposed && info(weight.spec.weight).block_elems != 1) {
    throw Error(fmt::format("{} is {}, whose blocks can't be transposed", weights().place(name),
                            rocmforge::name(weight.spec.weight)));
  }
  weights().check_blocks(*weight.tensor, weight.columns);
  return weight;
}

const MatmulWeight* Planner::matmul_weight(const LinearName& layer, std::int64_t k, std::vector<Refusal>& refusals) {
  MatmulWeight weight = find_weight(layer, k);
  Choice<Matmul> choice = with_context(weights().place(weight.tensor->name), [&] {
    return choose_for_weights<Matmul>(*registry_, weight.spec, device(), forced(options_.matmul), options_.small_weights);
  });
  for (Refusal& refusal : choice.refusals) {
    if (std::none_of(refusals.begin(), refusals.end(), [&](const Refusal& known) {
          return known.kernel == refusal.kernel && known.reason == refusal.reason;
        })) {
      refusals.push_back(std::move(refusal));
    }
  }
  need_scratch(choice.kernel->workspace_bytes(options_.max_batch_tokens, weight.spec.k));
  weight.kernel = choice.kernel;
  weight.scale = weights().product_scale(layer.name, weight.tensor->tensor.dtype);
  return weights().add(std::move(weight));
}

void Planner::join(ResidualSum& sum, FusedLinear& next) {
  std::int64_t tokens = next.fusions.post_norm_tokens;
  if (next.norm) {  // a separate norm would overwrite y
    tokens = std::min(tokens, next.fusions.norm_tokens);
  }
  if (sum.first != nullptr) {
    tokens = std::min(tokens, sum.first->joined_tokens);
  }
  if (tokens == 0) {
    return;
  }
  sum.joined_tokens = tokens;
  next.sum = &sum;
  const RmsNorm::Spec& norm = std::get<Resolved<RmsNorm>>(sum.norm.operation).spec;
  buffers().need_rows(BufferName::sums, std::min(buffers().tokens(), tokens), norm.dim);
  plan_->report.make_part(RmsNorm::name, to_string(norm), next.linear.kind(), tokens);
}

}  // namespace rocmforge
