#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/plan/planner.h"
#include "models/plan/weight_choice.h"

namespace rocmforge {
namespace {

std::size_t stored_bytes(const MatmulWeight& weight) {
  const std::size_t packed = weight.kernel->packed_bytes(weight.spec);
  return packed > 0 ? packed : weight.bytes();
}

/// Throws Error unless `ranks` can share `count` of these.
void check_shared(std::int64_t count, std::string_view what, std::int32_t ranks) {
  if (count % ranks != 0) {
    throw Error(fmt::format("{} {} can't be shared by {} ranks", count, what, ranks));
  }
}

/// Reduces a whole weight to the rows or columns of a shard.
void cut(const Shard& shard, MatmulWeight& weight) {
  if (shard.cuts(Shard::Axis::rows)) {
    const bool grouped = weight.groups.groups > 0;
    check_shared(grouped ? weight.groups.groups : weight.spec.n, grouped ? "groups of rows" : "rows", shard.ranks);
    weight.rows = {shard.first(weight.spec.n), weight.spec.n};
    weight.spec.n /= shard.ranks;
    weight.groups.groups /= shard.ranks;
  } else if (shard.cuts(Shard::Axis::columns)) {
    check_shared(weight.spec.k, "columns", shard.ranks);
    const std::int64_t of = weight.columns.of > 0 ? weight.columns.of : weight.spec.k;
    weight.columns = {weight.columns.first + shard.first(weight.spec.k), of};
    weight.spec.k /= shard.ranks;
  }
}

}  // namespace

Linear Planner::linear(std::string_view operation, const std::vector<LinearName>& names, std::int64_t k) {
  auto [linear, planned] = choose_linear(operation, names, k);
  plan_->report.add(std::move(planned));
  return linear;
}

FusedLinear Planner::fused_linear(std::string_view operation, const std::optional<NormName>& norm,
                                  const std::vector<LinearName>& names, std::int64_t k,
                                  const std::optional<GatedActivation::Spec>& gate) {
  auto [linear, planned] = choose_linear(operation, names, k);
  check(!norm || linear.parts()[0].weight->spec.k == k, "a norm needs the whole row");
  const std::string_view kind = operation_kind(operation);
  FusedLinear fused;
  fused.fusions = linear.fusions();
  if (norm && norm->kind == NormKind::layer) {
    fused.fusions.norm_tokens = 0;
    fused.norm = this->norm(*norm, k);
  } else if (norm) {
    fused.norm = Norm{resolve_part<RmsNorm>({k, norm->eps}, kind, fused.fusions.norm_tokens), norm_weight(*norm, k)};
  } else {
    fused.fusions.norm_tokens = 0;
  }
  if (gate && gate->activation == Activation::gelu) {
    fused.fusions.gate_tokens = 0;  // products fuse only silu and gelu_tanh
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
    weight_bytes += stored_bytes(*weight);
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

/// The bias is added by the ranks whose outputs lie side by side, or by the first of those whose outputs are summed.
Linear::Part Planner::with_bias(const MatmulWeight& weight, const LinearName& layer) {
  const std::string name = layer.name + ".bias";
  if (layer.shard.cuts(Shard::Axis::columns) && layer.shard.rank > 0) {
    weights().pass_over(name);
    return {&weight};
  }
  const bool has_bias = layer.needs_bias || weights().has_tensor(name);
  return {&weight, has_bias ? vector(name, layer.n) : nullptr, weight.rows.first};
}

MatmulWeight Planner::find_weight(const LinearName& layer, std::int64_t k) {
  const std::string name = layer.name + ".weight";
  MatmulWeight weight;
  weight.groups = layer.groups;
  weight.columns = layer.columns;
  weight.tensor = &weights().tensor(name, {layer.n, layer.columns.of > 0 ? layer.columns.of : k});
  weight.spec = {weight.tensor->tensor.dtype, layer.n, k};
  with_context(weights().place(name), [&] { cut(layer.shard, weight); });
  check(weight.columns.of == 0 || (weight.rows.of == 0 && weight.groups.groups == 0), "a weight is cut along one axis");
  const std::int32_t together = info(weight.spec.weight).block_elems;
  if (weight.columns.of > 0 && (weight.spec.k % together != 0 || weight.columns.first % together != 0)) {
    throw Error(fmt::format("{} is {}, whose blocks of {} columns can't be parted behind column {}", weights().place(name),
                            rocmforge::name(weight.spec.weight), together, weight.spec.k));
  }
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
  weight.scale = weights().product_scale(layer.name, weight.spec.weight);
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
