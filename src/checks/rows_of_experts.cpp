// The choice of experts and their products.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "checks/difference.h"
#include "checks/inputs.h"
#include "checks/problem.h"
#include "checks/route_logits.h"

namespace rocmforge {
namespace {

enum class ExpertForm { gated, alone, down };

/// Ids of a token's experts: different ones.
std::vector<std::int32_t> expert_ids(const ExpertMatmul::Spec& spec, std::int64_t tokens, PooledRandom& random) {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> order(static_cast<std::size_t>(spec.experts));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(spec.used); ++i) {
      const auto rest = static_cast<std::int32_t>(order.size() - i);
      std::swap(order[i], order[i + static_cast<std::size_t>(random.below(rest))]);
      ids.push_back(order[i]);
    }
  }
  return ids;
}

/// A matrix of every expert in the kernel's layout.
ExpertWeight expert_weight(const ExpertMatmulKernel& kernel, const ExpertMatmul::Spec& spec, Slot<std::byte> rows,
                           PlacedArrays& place) {
  const std::size_t file_bytes = row_bytes(spec.weight, spec.k) * static_cast<std::size_t>(spec.n);
  const std::size_t packed = kernel.packed_bytes(spec);
  if (packed == 0) {
    return {spec.weight, place.at(rows), spec.n, static_cast<std::int64_t>(file_bytes)};
  }
  const auto experts = static_cast<std::size_t>(spec.experts);
  const void* data = place.packed(packed * experts, [&](std::byte* to, ExecutionContext& context) {
    const std::byte* from = place.arrays().all()[rows.index].content.data();
    for (std::size_t e = 0; e < experts; ++e) {
      kernel.pack(spec, from + e * file_bytes, to + e * packed, context);
    }
  });
  return {spec.weight, data, spec.n, static_cast<std::int64_t>(packed)};
}

CallProblem<ExpertMatmul> expert_problem(const ExpertMatmul::Spec& spec, ExpertForm form, std::int64_t tokens) {
  CallProblem<ExpertMatmul> problem;
  PooledRandom random(31);
  const bool down = form == ExpertForm::down;
  const std::int64_t slots = tokens * spec.used;
  const std::size_t parts = form == ExpertForm::gated ? 2 : 1;
  std::vector<Slot<std::byte>> rows;
  for (std::size_t part = 0; part < parts; ++part) {
    rows.push_back(problem.arrays.stored("weight", random_weight(spec.weight, spec.experts * spec.n, spec.k, random)));
  }
  const std::vector<std::int32_t> chosen = expert_ids(spec, tokens, random);
  const auto ids = problem.arrays.input("ids", chosen);
  const auto x = problem.arrays.input("x", random.uniforms((down ? slots : tokens) * spec.k, -1.0f, 1.0f));
  const auto shares = down ? problem.arrays.input("shares", random.uniforms(slots, 0.1f, 1.0f)) : Slot<float>();
  const auto out = down ? problem.arrays.updated("out", random.normals(tokens * spec.n), spec.n)
                        : problem.arrays.output<float>("out", slots, spec.n);
  problem.tolerance = type_tolerance(spec.weight) * (down ? 2.0 : 4.0);
  const double weights = static_cast<double>(parts) * static_cast<double>(spec.n);
  problem.flops = 2.0 * static_cast<double>(slots * spec.k) * weights;
  std::vector<std::int32_t> different = chosen;
  std::ranges::sort(different);
  different.erase(std::unique(different.begin(), different.end()), different.end());
  problem.bytes = static_cast<double>(row_bytes(spec.weight, spec.k)) * weights * static_cast<double>(different.size());
  problem.bind = [=](const ExpertMatmulKernel& kernel, PlacedArrays& place) {
    std::vector<ExpertWeight> matrices;
    for (const Slot<std::byte> part : rows) {
      matrices.push_back(expert_weight(kernel, spec, part, place));
    }
    ExpertMatmul::Args args;
    args.x = place.at(x);
    args.tokens = tokens;
    args.k = spec.k;
    args.used = spec.used;
    args.experts = spec.experts;
    args.ids = place.at(ids);
    args.shares = place.at(shares);
    args.out = place.at(out);
    args.activation = form == ExpertForm::alone ? Activation::relu_squared : Activation::silu;
    args.alone = form == ExpertForm::alone;
    args.workspace = place.scratch(kernel.workspace_bytes(spec, tokens));
    args.order = place.scratch(kernel.order_bytes(spec, tokens));
    return std::function<void()>([&kernel, &place, args, matrices] {
      ExpertMatmul::Args call = args;
      call.weights = matrices;
      kernel.run(call, place.context());
    });
  };
  return problem;
}

CallProblem<RouteTokens> route_problem(const RouteTokens::Spec& spec, std::int64_t tokens) {
  CallProblem<RouteTokens> problem;
  PooledRandom random(32);
  const std::vector<float> biases = random.normals(spec.experts, 0.2f);
  const auto logits =
      problem.arrays.input("logits", separate_logits(spec, spec.bias ? biases : std::vector<float>(), tokens, random));
  const auto bias = spec.bias ? problem.arrays.input("bias", biases) : Slot<float>();
  const auto ids = problem.arrays.output<std::int32_t>("ids", tokens, spec.taken());
  const auto weights = problem.arrays.output<float>("weights", tokens, spec.taken());
  problem.tolerance = 1e-5;
  problem.bytes = static_cast<double>(tokens * (spec.logits() + 2 * spec.taken())) * sizeof(float);
  problem.bind = bind_args<RouteTokens>(spec, [=](const auto&, PlacedArrays& place) {
    return RouteTokens::Args{.logits = place.at(logits),
                             .tokens = tokens,
                             .bias = place.at(bias),
                             .ids = place.at(ids),
                             .weights = place.at(weights)};
  });
  return problem;
}

CallProblem<RouteRows> route_rows_problem(const RouteRows::Spec& spec, std::int64_t tokens) {
  CallProblem<RouteRows> problem;
  PooledRandom random(33);
  const RouteTokens::Spec& route = spec.route;
  const float deviation = 2.0f / std::sqrt(static_cast<float>(spec.hidden));
  const auto x = problem.arrays.input("x", random.normals(tokens * spec.hidden, 3.0f));
  const auto norm = problem.arrays.input("norm", random.normals(spec.hidden));
  const auto router = problem.arrays.input("router", random.normals(route.experts * spec.hidden, deviation));
  const auto gates = route.shared_gates
                         ? problem.arrays.input("shared gates", random.normals(route.shared * spec.hidden, deviation))
                         : Slot<float>();
  const auto bias = route.bias ? problem.arrays.input("bias", random.normals(route.experts, 0.2f)) : Slot<float>();
  const auto normed = problem.arrays.output<float>("normed", tokens, spec.hidden);
  const auto ids = problem.arrays.output<std::int32_t>("ids", tokens, route.taken());
  const auto weights = problem.arrays.output<float>("weights", tokens, route.taken());
  problem.tolerance = 1e-4;
  problem.bytes = static_cast<double>(route.experts * spec.hidden + 2 * tokens * spec.hidden) * sizeof(float);
  problem.bind = [=](const RouteRowsKernel& kernel, PlacedArrays& place) {
    const RouteRows::Args args{.x = place.at(x),
                               .norm = place.at(norm),
                               .router = place.at(router),
                               .shared_gates = place.at(gates),
                               .tokens = tokens,
                               .bias = place.at(bias),
                               .normed = place.at(normed),
                               .ids = place.at(ids),
                               .weights = place.at(weights),
                               .workspace = place.scratch(kernel.workspace_bytes(spec, tokens)),
                               .state = place.zeros(kernel.state_bytes(spec))};
    return std::function<void()>([&kernel, &place, spec, args] { kernel.run(spec, args, place.context()); });
  };
  return problem;
}

}  // namespace

template <>
std::vector<CallShape<ExpertMatmul>> shapes_of(const KernelUse<ExpertMatmul>& use, const ShapeLimits& limits) {
  // Whether a weight is a gate, an up or a down part is known by its shape only: inner parts are as a rule narrower.
  std::vector<ExpertForm> forms = {ExpertForm::alone};
  if (!use.spec.alone) {
    forms = {ExpertForm::gated, ExpertForm::down};
  }
  std::vector<CallShape<ExpertMatmul>> shapes;
  // Each expert has used / experts of the tokens.
  const std::int64_t most = std::min(
      limits.max_tokens, most_product_tokens(limits, use.spec.experts * use.spec.n) * use.spec.experts / use.spec.used);
  for (const std::int64_t tokens : expert_token_counts(most)) {
    for (const ExpertForm form : forms) {
      const std::string name = form == ExpertForm::gated ? ", gate and up" : form == ExpertForm::alone ? ", up" : ", down";
      const double products = static_cast<double>(tokens * use.spec.used * use.spec.n) * static_cast<double>(use.spec.k);
      shapes.push_back({tokens_text(tokens) + name, products * (form == ExpertForm::gated ? 2 : 1),
                        [spec = use.spec, form, tokens] { return expert_problem(spec, form, tokens); }});
    }
  }
  return shapes;
}

template <>
std::vector<CallShape<RouteTokens>> shapes_of(const KernelUse<RouteTokens>& use, const ShapeLimits& limits) {
  std::vector<CallShape<RouteTokens>> shapes;
  for (const std::int64_t tokens : token_counts(limits.max_tokens)) {
    shapes.push_back({tokens_text(tokens), 10.0 * static_cast<double>(tokens * use.spec.experts),
                      [spec = use.spec, tokens] { return route_problem(spec, tokens); }});
  }
  return shapes;
}

template <>
std::vector<CallShape<RouteRows>> shapes_of(const KernelUse<RouteRows>& use, const ShapeLimits& limits) {
  std::vector<CallShape<RouteRows>> shapes;
  for (const std::int64_t tokens : token_counts(std::min(limits.max_tokens, use.kernel->most_tokens()))) {
    shapes.push_back({tokens_text(tokens), static_cast<double>(tokens * use.spec.hidden * use.spec.route.experts),
                      [spec = use.spec, tokens] { return route_rows_problem(spec, tokens); }});
  }
  return shapes;
}

}  // namespace rocmforge
