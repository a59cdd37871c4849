// Operations that compute each token's row by itself.

#include <cmath>

#include "checks/inputs.h"
#include "checks/problem.h"

namespace rocmforge {
namespace {

constexpr double float_tolerance = 1e-5;

CallProblem<EmbeddingRows> embedding_problem(const EmbeddingRows::Spec& spec, std::int64_t tokens) {
  CallProblem<EmbeddingRows> problem;
  PooledRandom random(1);
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(tokens));
  for (std::int32_t& id : numbers) {
    id = random.below(static_cast<std::int32_t>(spec.vocab));
  }
  numbers.front() = static_cast<std::int32_t>(spec.vocab - 1);
  const auto ids = problem.arrays.input("ids", numbers);
  const auto table = problem.arrays.stored("table", random_weight(spec.table, spec.vocab, spec.hidden, random));
  const auto out = problem.arrays.output<float>("out", tokens, spec.hidden);
  problem.tolerance = float_tolerance;
  problem.bytes = static_cast<double>(row_bytes(spec.table, spec.hidden)) * static_cast<double>(tokens) +
                  float_bytes(tokens * spec.hidden);
  problem.bind = bind_args<EmbeddingRows>(spec, [=](const auto&, PlacedArrays& place) {
    return EmbeddingRows::Args{
        .ids = place.at(ids), .tokens = tokens, .table = place.at(table), .scale = 1.5f, .out = place.at(out)};
  });
  return problem;
}

/// `added`: the norm is added to the residual stream, in place.
CallProblem<RmsNorm> rms_norm_problem(const RmsNorm::Spec& spec, std::int64_t tokens, bool added) {
  CallProblem<RmsNorm> problem;
  PooledRandom random(2);
  const std::int64_t rows = tokens * spec.groups;
  const auto x = problem.arrays.input("x", random.normals(rows * spec.dim, 2.0f));
  const auto weight = problem.arrays.input("weight", random.normals(spec.groups * spec.dim));
  const auto out = added ? problem.arrays.updated("out", random.normals(rows * spec.dim), spec.dim)
                         : problem.arrays.output<float>("out", rows, spec.dim);
  problem.tolerance = float_tolerance;
  problem.bytes = float_bytes((added ? 3 : 2) * rows * spec.dim + spec.groups * spec.dim);
  problem.bind = bind_args<RmsNorm>(spec, [=](const auto&, PlacedArrays& place) {
    RmsNorm::Args args{.x = place.at(x), .rows = rows, .weight = place.at(weight), .out = place.at(out)};
    if (added) {
      args.residual = args.out;
      args.factor = 0.5f;
      args.scale = 1.25f;
    }
    return args;
  });
  return problem;
}

CallProblem<LayerNorm> layer_norm_problem(const LayerNorm::Spec& spec, std::int64_t tokens) {
  CallProblem<LayerNorm> problem;
  PooledRandom random(3);
  const auto x = problem.arrays.input("x", random.normals(tokens * spec.dim, 2.0f));
  const auto weight = problem.arrays.input("weight", random.normals(spec.dim));
  const auto bias = spec.bias ? problem.arrays.input("bias", random.normals(spec.dim)) : Slot<float>();
  const auto out = problem.arrays.output<float>("out", tokens, spec.dim);
  problem.tolerance = float_tolerance;
  problem.bytes = float_bytes(2 * tokens * spec.dim);
  problem.bind = bind_args<LayerNorm>(spec, [=](const auto&, PlacedArrays& place) {
    return LayerNorm::Args{
        .x = place.at(x), .rows = tokens, .weight = place.at(weight), .bias = place.at(bias), .out = place.at(out)};
  });
  return problem;
}

CallProblem<GatedActivation> activation_problem(const GatedActivation::Spec& spec, std::int64_t tokens) {
  CallProblem<GatedActivation> problem;
  PooledRandom random(4);
  const std::int64_t stride = (spec.gated ? 2 : 1) * spec.width;
  const auto x = problem.arrays.input("x", random.normals(tokens * stride, 2.0f));
  const auto out = problem.arrays.output<float>("out", tokens, spec.width);
  problem.tolerance = float_tolerance;
  problem.bytes = float_bytes(tokens * (stride + spec.width));
  problem.bind = bind_args<GatedActivation>(spec, [=](const auto&, PlacedArrays& place) {
    const float* rows = place.at(x);
    return GatedActivation::Args{.gate = spec.gated ? rows : nullptr,
                                 .up = spec.gated ? rows + spec.width : rows,
                                 .tokens = tokens,
                                 .stride = stride,
                                 .out = place.at(out)};
  });
  return problem;
}

CallProblem<ResidualAdd> residual_problem(std::int64_t tokens) {
  constexpr std::int64_t width = 4096;
  CallProblem<ResidualAdd> problem;
  PooledRandom random(5);
  const auto a = problem.arrays.input("a", random.normals(tokens * width));
  const auto b = problem.arrays.input("b", random.normals(tokens * width));
  const auto out = problem.arrays.output<float>("out", tokens, width);
  problem.tolerance = float_tolerance;
  problem.bytes = float_bytes(3 * tokens * width);
  problem.bind = bind_args<ResidualAdd>({}, [=](const auto&, PlacedArrays& place) {
    return ResidualAdd::Args{
        .a = place.at(a), .b = place.at(b), .count = tokens * width, .out = place.at(out), .factor = 0.5f, .scale = 1.25f};
  });
  return problem;
}

CallProblem<OutputGate> output_gate_problem(const OutputGate::Spec& spec, std::int64_t tokens) {
  CallProblem<OutputGate> problem;
  PooledRandom random(6);
  const auto x = problem.arrays.input("x", random.normals(tokens * spec.width()));
  const auto gate = problem.arrays.input("gate", random.normals(tokens * spec.gates()));
  const auto weight = spec.norm ? problem.arrays.input("weight", random.normals(spec.dim)) : Slot<float>();
  const auto out = problem.arrays.output<float>("out", tokens, spec.width());
  problem.tolerance = float_tolerance;
  problem.bytes = float_bytes(3 * tokens * spec.width());
  problem.bind = bind_args<OutputGate>(spec, [=](const auto&, PlacedArrays& place) {
    return OutputGate::Args{.x = place.at(x),
                            .x_stride = spec.width(),
                            .gate = place.at(gate),
                            .gate_stride = spec.gates(),
                            .weight = place.at(weight),
                            .tokens = tokens,
                            .out = place.at(out)};
  });
  return problem;
}

CallProblem<CopyHeads> copy_problem(const CopyHeads::Spec& spec, std::int64_t tokens) {
  constexpr std::int32_t heads = 3;
  constexpr std::int32_t out_heads = 7;
  CallProblem<CopyHeads> problem;
  PooledRandom random(7);
  const auto x = problem.arrays.input("x", random.normals((tokens + 2) * heads * spec.dim));
  // Heads that are not written keep their values.
  const auto out = problem.arrays.updated("out", random.normals((tokens + 2) * out_heads * spec.out_dim), spec.out_dim);
  problem.bytes = float_bytes(2 * tokens * heads * spec.out_dim);
  problem.bind = bind_args<CopyHeads>(spec, [=](const auto&, PlacedArrays& place) {
    return CopyHeads::Args{.x = place.at(x),
                           .heads = heads,
                           .first_token = 2,
                           .tokens = tokens,
                           .out = place.at(out),
                           .out_heads = out_heads,
                           .first_head = 4};
  });
  return problem;
}

CallProblem<GatherRows> gather_problem(const GatherRows::Spec& spec, std::int64_t count) {
  CallProblem<GatherRows> problem;
  PooledRandom random(9);
  const std::int64_t rows = 2 * count + 1;
  std::vector<std::int32_t> wanted(static_cast<std::size_t>(count));
  for (std::int32_t& row : wanted) {
    row = random.below(static_cast<std::int32_t>(rows));
  }
  const auto x = problem.arrays.input("x", random.normals(rows * spec.dim));
  const auto ids = problem.arrays.input("ids", wanted);
  const auto out = problem.arrays.output<float>("out", count, spec.dim);
  problem.bytes = float_bytes(2 * count * spec.dim);
  problem.bind = bind_args<GatherRows>(spec, [=](const auto&, PlacedArrays& place) {
    return GatherRows::Args{.x = place.at(x), .ids = place.at(ids), .count = count, .out = place.at(out)};
  });
  return problem;
}

/// `count` rows of twice as many are replaced, in no order, by rows of a wider array, or with an odd `count` get them added.
CallProblem<OverwriteRows> overwrite_problem(const OverwriteRows::Spec& spec, std::int64_t count) {
  CallProblem<OverwriteRows> problem;
  PooledRandom random(11);
  const std::int64_t stride = 2 * spec.dim;
  std::vector<std::int32_t> rows = random.permutation(static_cast<std::int32_t>(2 * count));
  rows.resize(static_cast<std::size_t>(count));
  const auto x = problem.arrays.input("x", random.normals(count * stride));
  const auto from = problem.arrays.input("from", random.permutation(static_cast<std::int32_t>(count)));
  const auto ids = problem.arrays.input("ids", rows);
  const auto out = problem.arrays.updated("out", random.normals(2 * count * spec.dim), spec.dim);
  problem.bytes = float_bytes(2 * count * spec.dim);
  problem.bind = bind_args<OverwriteRows>(spec, [=](const auto&, PlacedArrays& place) {
    return OverwriteRows::Args{.x = place.at(x),
                               .x_stride = stride,
                               .from = place.at(from),
                               .ids = place.at(ids),
                               .count = count,
                               .out = place.at(out),
                               .add = count % 2 != 0};
  });
  return problem;
}

/// Greedy rows and drawn ones with every option in turn.
std::vector<SampleRow> sample_rows(std::int64_t count, PooledRandom& random) {
  std::vector<SampleRow> rows(static_cast<std::size_t>(count));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    rows[r].uniform = random.unit();
    rows[r].temperature = r % 4 == 0 ? 0.0f : 0.8f;
    rows[r].top_k = r % 4 == 2 ? 40 : 0;
    rows[r].top_p = r % 4 == 3 ? 0.9f : 1.0f;
    rows[r].min_p = r % 4 == 1 ? 0.05f : 0.0f;
    rows[r].top_n_sigma = r % 8 == 5 ? 1.5f : 0.0f;
    rows[r].xtc_threshold = r % 8 == 6 ? 0.1f : 1.0f;
    rows[r].temperature_range = r % 8 == 7 ? 0.5f : 0.0f;
    rows[r].min_keep = r % 16 == 9 ? 20 : 0;
    rows[r].target_probability = r % 16 == 10 ? 0.2f : -1.0f;
    rows[r].most_surprise = 6.0f;
    if (r % 16 == 11 || r % 16 == 13) {
      rows[r].stages[1] = r % 16 == 11 ? SampleStage::zipf : SampleStage::surprise;
    }
  }
  return rows;
}

CallProblem<SampleTokens> sample_problem(const SampleTokens::Spec& spec, std::int64_t count) {
  CallProblem<SampleTokens> problem;
  PooledRandom random(8);
  const auto logits = problem.arrays.updated("logits", random.normals(count * spec.vocab, 3.0f), spec.vocab);
  const auto rows = problem.arrays.input("rows", sample_rows(count, random));
  const auto out = problem.arrays.output<std::int32_t>("out", count, 1);
  problem.bytes = float_bytes(count * spec.vocab);
  problem.bind = [=](const OpKernel<SampleTokens>& kernel, PlacedArrays& place) {
    const SampleTokens::Args args{
        .logits = place.at(logits),
        .num_rows = count,
        .rows = place.at(rows),
        .out = place.at(out),
        .workspace = place.scratch(sample_workspace_bytes(spec.vocab) * static_cast<std::size_t>(count))};
    return std::function<void()>([&kernel, &place, spec, args] { kernel.run(spec, args, place.context()); });
  };
  return problem;
}

}  // namespace

template <>
std::vector<CallShape<EmbeddingRows>> shapes_of(const KernelUse<EmbeddingRows>& use, const ShapeLimits& limits) {
  // Each call has a table of its own, which is large.
  return shapes_by_tokens<EmbeddingRows>(least_token_counts(limits.max_tokens), static_cast<double>(use.spec.hidden),
                                         [spec = use.spec](std::int64_t tokens) { return embedding_problem(spec, tokens); });
}

template <>
std::vector<CallShape<RmsNorm>> shapes_of(const KernelUse<RmsNorm>& use, const ShapeLimits& limits) {
  const double work = static_cast<double>(use.spec.dim * use.spec.groups);
  auto shapes = shapes_by_tokens<RmsNorm>(token_counts(limits.max_tokens), work, [spec = use.spec](std::int64_t tokens) {
    return rms_norm_problem(spec, tokens, false);
  });
  for (CallShape<RmsNorm>& shape :
       shapes_by_tokens<RmsNorm>(token_counts(std::min<std::int64_t>(limits.max_tokens, 3)), work,
                                 [spec = use.spec](std::int64_t tokens) { return rms_norm_problem(spec, tokens, true); })) {
    shape.name += ", added";
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

template <>
std::vector<CallShape<LayerNorm>> shapes_of(const KernelUse<LayerNorm>& use, const ShapeLimits& limits) {
  return shapes_by_tokens<LayerNorm>(token_counts(limits.max_tokens), static_cast<double>(use.spec.dim),
                                     [spec = use.spec](std::int64_t tokens) { return layer_norm_problem(spec, tokens); });
}

template <>
std::vector<CallShape<GatedActivation>> shapes_of(const KernelUse<GatedActivation>& use, const ShapeLimits& limits) {
  return shapes_by_tokens<GatedActivation>(
      token_counts(limits.max_tokens), static_cast<double>(use.spec.width),
      [spec = use.spec](std::int64_t tokens) { return activation_problem(spec, tokens); });
}

template <>
std::vector<CallShape<ResidualAdd>> shapes_of(const KernelUse<ResidualAdd>&, const ShapeLimits& limits) {
  return shapes_by_tokens<ResidualAdd>(token_counts(limits.max_tokens), 4096.0,
                                       [](std::int64_t tokens) { return residual_problem(tokens); });
}

template <>
std::vector<CallShape<OutputGate>> shapes_of(const KernelUse<OutputGate>& use, const ShapeLimits& limits) {
  return shapes_by_tokens<OutputGate>(token_counts(limits.max_tokens), static_cast<double>(use.spec.width()),
                                      [spec = use.spec](std::int64_t tokens) { return output_gate_problem(spec, tokens); });
}

template <>
std::vector<CallShape<CopyHeads>> shapes_of(const KernelUse<CopyHeads>& use, const ShapeLimits& limits) {
  return shapes_by_tokens<CopyHeads>(token_counts(limits.max_tokens), static_cast<double>(use.spec.dim),
                                     [spec = use.spec](std::int64_t tokens) { return copy_problem(spec, tokens); });
}

template <>
std::vector<CallShape<GatherRows>> shapes_of(const KernelUse<GatherRows>& use, const ShapeLimits& limits) {
  return shapes_by_tokens<GatherRows>(token_counts(limits.max_tokens), static_cast<double>(use.spec.dim),
                                      [spec = use.spec](std::int64_t rows) { return gather_problem(spec, rows); });
}

template <>
std::vector<CallShape<OverwriteRows>> shapes_of(const KernelUse<OverwriteRows>& use, const ShapeLimits& limits) {
  return shapes_by_tokens<OverwriteRows>(least_token_counts(limits.max_tokens), static_cast<double>(use.spec.dim),
                                         [spec = use.spec](std::int64_t rows) { return overwrite_problem(spec, rows); });
}

template <>
std::vector<CallShape<SampleTokens>> shapes_of(const KernelUse<SampleTokens>& use, const ShapeLimits& limits) {
  constexpr std::int64_t most_rows = 64;
  const double work_of_sorting = 20.0 * static_cast<double>(use.spec.vocab);
  return shapes_by_tokens<SampleTokens>(token_counts(std::min(limits.max_tokens, most_rows)), work_of_sorting,
                                        [spec = use.spec](std::int64_t rows) { return sample_problem(spec, rows); });
}

}  // namespace rocmforge
