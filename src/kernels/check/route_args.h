#pragma once

#include <cstdint>

#include "ops/experts.h"

namespace rocmforge::check_kernels {

/// The choice of experts from logits: ops/experts.h.
struct RouteCheckArgs {
  RouteTokens::Spec spec;
  const float* logits;         ///< [tokens, all], or null
  const double* exact_logits;  ///< in their place
  const float* bias;           ///< [experts] or null
  std::int32_t* ids;           ///< [tokens, taken]
  float* weights;              ///< [tokens, taken]
  std::int64_t tokens;
  std::int32_t all;    ///< RouteTokens::Spec::logits()
  std::int32_t taken;  ///< RouteTokens::Spec::taken()
};
/// The chosen groups of a token are bits of a number.
inline constexpr std::int32_t most_route_groups = 64;

/// The norm and the router before that, of RouteRows.
struct RouterCheckArgs {
  const float* x;             ///< [tokens, hidden]
  const float* norm;          ///< [hidden]
  const double* factors;      ///< [tokens], of the norm
  const float* router;        ///< [experts, hidden]
  const float* router_bias;   ///< [experts] or null
  const float* shared_gates;  ///< [all - experts, hidden]
  float* normed;              ///< [tokens, hidden]
  double* logits;             ///< [tokens, all]
  std::int64_t tokens;
  std::int64_t hidden;
  std::int32_t experts;
  std::int32_t all;
};

}  // namespace rocmforge::check_kernels
