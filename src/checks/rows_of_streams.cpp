// Sums of residual streams, and rows of which the largest elements are kept.

#include "checks/inputs.h"
#include "checks/problem.h"

namespace rocmforge {
namespace {

/// With a row and logits as the form of the spec has them in models; an odd number of tokens has factors.
CallProblem<MixStreams> mix_problem(const MixStreams::Spec& spec, std::int64_t tokens) {
  CallProblem<MixStreams> problem;
  PooledRandom random(21);
  const std::int64_t streams = MixStreams::streams;
  const std::int64_t entries = streams * spec.columns();
  const bool steered = spec.inputs != MixStreams::Inputs::matched;
  const auto x = problem.arrays.updated("x", random.normals(tokens * streams * spec.dim), spec.dim);
  const auto row = spec.has_row() ? problem.arrays.input("row", random.normals(tokens * spec.dim, 3.0f)) : Slot<float>();
  const auto logits = steered ? problem.arrays.input("logits", random.normals(tokens * streams)) : Slot<float>();
  const auto base = problem.arrays.input("base", random.normals(entries));
  const auto coefs = steered ? problem.arrays.input("coefs", random.normals(entries * streams)) : Slot<float>();
  const bool has_factors = tokens % 2 != 0;
  const auto factors = has_factors ? problem.arrays.input("factors", random.normals(spec.dim)) : Slot<float>();
  const auto first = problem.arrays.output<float>("first", tokens, spec.dim);
  problem.tolerance = 1e-5;
  problem.bytes = float_bytes(tokens * spec.dim * (2 * streams + (spec.has_row() ? 2 : 1)));
  problem.bind = bind_args<MixStreams>(spec, [=](const auto&, PlacedArrays& place) {
    return MixStreams::Args{.x = place.at(x),
                            .row = place.at(row),
                            .logits = place.at(logits),
                            .base = place.at(base),
                            .coefs = place.at(coefs),
                            .tokens = tokens,
                            .first = place.at(first),
                            .factors = place.at(factors)};
  });
  return problem;
}

/// Rows with something behind them, as gates with their values.
CallProblem<CutRows> cut_problem(const CutRows::Spec& spec, std::int64_t rows) {
  CallProblem<CutRows> problem;
  PooledRandom random(22);
  const std::int64_t stride = 2 * spec.width;
  const auto x = problem.arrays.updated("x", random.normals(rows * stride), stride);
  problem.tolerance = 1e-5;
  problem.bytes = float_bytes(2 * rows * spec.width);
  problem.bind = bind_args<CutRows>(spec, [=](const auto&, PlacedArrays& place) {
    return CutRows::Args{.x = place.at(x), .rows = rows, .stride = stride};
  });
  return problem;
}

}  // namespace

template <>
std::vector<CallShape<MixStreams>> shapes_of(const KernelUse<MixStreams>& use, const ShapeLimits& limits) {
  const std::int64_t products = MixStreams::streams * use.spec.columns() * use.spec.dim;
  return shapes_by_tokens<MixStreams>(least_token_counts(limits.max_tokens), static_cast<double>(products),
                                      [spec = use.spec](std::int64_t tokens) { return mix_problem(spec, tokens); });
}

template <>
std::vector<CallShape<CutRows>> shapes_of(const KernelUse<CutRows>& use, const ShapeLimits& limits) {
  return shapes_by_tokens<CutRows>(least_token_counts(limits.max_tokens), static_cast<double>(3 * use.spec.width),
                                   [spec = use.spec](std::int64_t rows) { return cut_problem(spec, rows); });
}

}  // namespace rocmforge
