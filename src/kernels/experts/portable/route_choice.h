#pragma once

#include "kernels/experts/portable/experts_args.h"
#include "ops/experts.h"

namespace rocmforge {

/// The choice of experts for a kernel, from the Args of RouteTokens or RouteRows.
template <class Args>
gpu::RouteChoice route_choice(const RouteTokens::Spec& spec, const Args& args) {
  return {.bias = spec.bias ? args.bias : nullptr,
          .ids = args.ids,
          .weights = args.weights,
          .experts = spec.experts,
          .used = spec.used,
          .score = static_cast<std::int32_t>(spec.score),
          .normalise = spec.normalise ? 1 : 0,
          .scale = spec.scale,
          .groups = spec.groups,
          .groups_used = spec.groups_used,
          .group_best = spec.group_best,
          .shared = spec.shared,
          .shared_gates = spec.shared_gates ? 1 : 0,
          .shared_scale = spec.shared_scale,
          .unused = 0};
}

/// The arguments of the kernels of RouteRows.
inline gpu::RouteRowsArgs route_rows_args(const RouteRows::Spec& spec, const RouteRows::Args& args) {
  return {.choice = route_choice(spec.route, args),
          .x = args.x,
          .norm = args.norm,
          .router = args.router,
          .router_bias = args.router_bias,
          .shared_gates = spec.route.shared_gates ? args.shared_gates : nullptr,
          .normed = args.normed,
          .eps = spec.eps,
          .hidden = static_cast<std::int32_t>(spec.hidden),
          .tokens = static_cast<std::int32_t>(args.tokens),
          .unused = 0};
}

/// Whether the kernels that choose experts have room for so many.
[[nodiscard]] Support check_route_room(const RouteTokens::Spec& spec);

}  // namespace rocmforge
