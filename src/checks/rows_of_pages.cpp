// The operations that fill pages, and those that read latent rows from them.

#include <utility>

#include "checks/difference.h"
#include "checks/inputs.h"
#include "checks/problem.h"
#include "ops/kv_coding.h"

namespace rocmforge {
namespace {

/// For operations that write K and V of a step's tokens: what differs is the place of a token in its page and in the step.
std::vector<StepShape> append_steps(const ShapeLimits& limits) {
  std::vector<StepShape> steps = {{"one token", {{1, 1}}},
                                  {"a prompt of 17", {{17, 17}}},
                                  {"a chunk of 5 behind 60, beside decodes", {{65, 5}, {1, 1}, {33, 1}}},
                                  {"prompts of 79, 128 and 64", {{79, 79}, {128, 128}, {64, 64}}},
                                  {"one token behind 131,072", {{131073, 1}}},
                                  ragged_decodes(64),
                                  {"a chunk of 512 behind 8,191", {{8703, 512}}},
                                  {"a prompt of 2,048", {{2048, 2048}}}};
  if (limits.step) {
    steps.push_back(*limits.step);
  }
  drop_longer(steps, limits.max_step_tokens, limits.max_kv_len);
  return steps;
}

/// Pages before an append: poisoned, so that what is written shows.
Slot<std::byte> empty_pages(CallArrays& arrays, const KvLayout& layout, std::int64_t num_blocks) {
  const std::vector<std::byte> poison(layout.block_bytes() * static_cast<std::size_t>(num_blocks), std::byte{0xff});
  return arrays.updated_bytes("pages", poison, layout.head_dim, decode_pages(layout));
}

CallProblem<RopeAppend> rope_problem(const RopeAppend::Spec& spec, const StepShape& shape) {
  CallProblem<RopeAppend> problem;
  PooledRandom random(52);
  PagedStep step = append_step(shape.sequences, spec.layout.block_tokens, random);
  const std::int64_t tokens = step.plan.num_tokens();
  const std::int64_t q_width = std::int64_t{spec.q_heads} * spec.head_dim;
  const std::int64_t kv_width = std::int64_t{spec.layout.kv_heads} * spec.head_dim;
  const std::int64_t stride = q_width + 2 * kv_width;
  const auto rows = problem.arrays.updated("q, k and v", random.normals(tokens * stride, 2.0f), spec.head_dim);
  const auto q_norm =
      spec.head_norm ? problem.arrays.input("q_norm", random.uniforms(spec.head_dim, 0.5f, 1.5f)) : Slot<float>();
  const auto k_norm = spec.head_norm && spec.append
                          ? problem.arrays.input("k_norm", random.uniforms(spec.head_dim, 0.5f, 1.5f))
                          : Slot<float>();
  const auto frequency =
      spec.kind == RopeKind::none ? Slot<float>() : problem.arrays.input("frequencies", rotary_frequencies(spec.n_rot));
  const auto pages = empty_pages(problem.arrays, spec.layout, step.num_blocks);
  problem.tolerance = pages_tolerance(spec.layout.dtype);
  problem.bytes = static_cast<double>(tokens * (q_width + stride)) * sizeof(float) +
                  static_cast<double>(kv_row_bytes(spec.layout.dtype, tokens * kv_width));
  const std::int64_t num_blocks = step.num_blocks;
  const BatchArrays batch(problem.arrays, std::move(step.plan));
  problem.bind = bind_args<RopeAppend>(spec, [=](const auto&, PlacedArrays& place) {
    float* q = place.at(rows);
    return RopeAppend::Args{.q = q,
                            .k = spec.append ? q + q_width : nullptr,
                            .v = spec.append ? q + q_width + kv_width : nullptr,
                            .stride = stride,
                            .q_norm = place.at(q_norm),
                            .k_norm = place.at(k_norm),
                            .inverse_frequency = place.at(frequency),
                            .cache = {place.at(pages), num_blocks},
                            .batch = batch.at(place)};
  });
  return problem;
}

CallProblem<LatentAppend> latent_problem(const LatentAppend::Spec& spec, const StepShape& shape) {
  CallProblem<LatentAppend> problem;
  PooledRandom random(53);
  PagedStep step = append_step(shape.sequences, spec.layout.block_tokens, random);
  const std::int64_t tokens = step.plan.num_tokens();
  const std::int64_t q_width = std::int64_t{spec.q_heads} * spec.q_dim;
  const std::int64_t kv_width = std::int64_t{spec.layout.value_dim} + spec.n_rot;
  const auto q = problem.arrays.updated("q", random.normals(tokens * q_width, 2.0f), spec.q_dim);
  const auto kv = problem.arrays.input("kv", random.normals(tokens * kv_width, 2.0f));
  const auto norm = problem.arrays.input("norm", random.uniforms(spec.layout.value_dim, 0.5f, 1.5f));
  const auto frequency = problem.arrays.input("frequencies", rotary_frequencies(spec.n_rot));
  const auto pages = empty_pages(problem.arrays, spec.layout, step.num_blocks);
  problem.tolerance = pages_tolerance(spec.layout.dtype);
  problem.bytes = static_cast<double>(tokens * (2 * q_width + kv_width)) * sizeof(float) +
                  static_cast<double>(row_bytes(spec.layout.dtype.k, tokens * kv_width));
  const std::int64_t num_blocks = step.num_blocks;
  const BatchArrays batch(problem.arrays, std::move(step.plan));
  problem.bind = bind_args<LatentAppend>(spec, [=](const auto&, PlacedArrays& place) {
    return LatentAppend::Args{.q = place.at(q),
                              .q_stride = q_width,
                              .kv = place.at(kv),
                              .kv_stride = kv_width,
                              .norm = place.at(norm),
                              .inverse_frequency = place.at(frequency),
                              .cache = {place.at(pages), num_blocks},
                              .batch = batch.at(place)};
  });
  return problem;
}

/// K and V of heads at every position of the sequences.
CallProblem<LatentExpand> expand_problem(const LatentExpand::Spec& spec, const StepShape& shape) {
  constexpr std::int32_t heads = 3;
  CallProblem<LatentExpand> problem;
  PooledRandom random(54);
  PagedStep step = paged_step(shape.sequences, spec.layout.block_tokens, random);
  const std::int64_t rank = spec.rank();
  const auto keys =
      problem.arrays.stored("key weight", random_weight(spec.key_weight, heads * rank, spec.plain_dim, random));
  const auto values = problem.arrays.stored(
      "value weight", random_weight(spec.value_weight, heads * std::int64_t{spec.value_dim}, rank, random));
  const auto pages = problem.arrays.stored("pages", random_pages(spec.layout, step.num_blocks, random));
  const std::int64_t rows = std::int64_t{step.plan.num_sequences()} * heads * step.plan.view().max_kv_len;
  const auto k = problem.arrays.output_of("k", spec.out, rows, spec.head_dim());
  const auto v = problem.arrays.output_of("v", spec.out, rows, spec.head_dim());
  // Weights are rounded to 16 bits, too.
  problem.tolerance = 2.0 * type_tolerance(spec.out);
  problem.flops = 2.0 * static_cast<double>(rows * rank) * (spec.plain_dim + spec.value_dim);
  problem.bytes = static_cast<double>(row_bytes(spec.out, 2 * rows * spec.head_dim())) +
                  static_cast<double>(step.num_blocks) * static_cast<double>(spec.layout.block_bytes());
  const std::int64_t num_blocks = step.num_blocks;
  const BatchArrays batch(problem.arrays, std::move(step.plan));
  problem.bind = bind_args<LatentExpand>(spec, [=](const auto&, PlacedArrays& place) {
    const auto head_bytes = [](DType type, std::int64_t count, std::int64_t columns) {
      return count * static_cast<std::int64_t>(row_bytes(type, columns));
    };
    return LatentExpand::Args{.key_weight = place.at(keys),
                              .key_head_bytes = head_bytes(spec.key_weight, rank, spec.plain_dim),
                              .value_weight = place.at(values),
                              .value_head_bytes = head_bytes(spec.value_weight, spec.value_dim, rank),
                              .heads = heads,
                              .cache = {place.at(pages), num_blocks},
                              .batch = batch.at(place),
                              .k = place.at(k),
                              .v = place.at(v),
                              .workspace = place.scratch(spec.workspace_bytes(heads))};
  });
  return problem;
}

/// Shapes of an operation that writes the pages of a step's tokens. `work`: of the oracle, for a token.
template <class Op, class Make>
std::vector<CallShape<Op>> shapes_of_append(const ShapeLimits& limits, double work, Make make) {
  std::vector<CallShape<Op>> shapes;
  for (const StepShape& step : append_steps(limits)) {
    double tokens = 0.0;
    for (const SequenceShape& one : step.sequences) {
      tokens += one.q_len;
    }
    shapes.push_back({step.name, work * tokens, [make, step] { return make(step); }});
  }
  return shapes;
}

/// A sine and a cosine, in products.
constexpr double turn_work = 50.0;

}  // namespace

double pages_tolerance(const KvTypes& types) {
  const auto of = [](DType type) {
    const bool is_coarse = is_kv_quant(type) && type != DType::q8_0;
    return !is_coarse ? type_tolerance(type) : kv_coding(type).fifth ? 1e-2 : 2e-2;
  };
  return std::max(of(types.k), of(types.v));
}

template <>
std::vector<CallShape<RopeAppend>> shapes_of(const KernelUse<RopeAppend>& use, const ShapeLimits& limits) {
  const double elements = static_cast<double>((use.spec.q_heads + use.spec.layout.planes()) * use.spec.head_dim);
  return shapes_of_append<RopeAppend>(limits, turn_work * elements,
                                      [spec = use.spec](const StepShape& step) { return rope_problem(spec, step); });
}

template <>
std::vector<CallShape<LatentAppend>> shapes_of(const KernelUse<LatentAppend>& use, const ShapeLimits& limits) {
  return shapes_of_append<LatentAppend>(limits, turn_work * static_cast<double>(use.spec.q_heads * use.spec.q_dim),
                                        [spec = use.spec](const StepShape& step) { return latent_problem(spec, step); });
}

template <>
std::vector<CallShape<LatentExpand>> shapes_of(const KernelUse<LatentExpand>& use, const ShapeLimits& limits) {
  std::vector<StepShape> steps = {{"a prompt of 17", {{17, 17}}},
                                  {"sequences of 129, 1 and 64", {{129, 129}, {1, 1}, {64, 64}}},
                                  {"a prompt of 2,048", {{2048, 2048}}}};
  if (limits.step) {
    steps.push_back(*limits.step);
  }
  drop_longer(steps, limits.max_step_tokens, limits.max_kv_len);
  std::vector<CallShape<LatentExpand>> shapes;
  for (const StepShape& step : steps) {
    double positions = 0.0;
    for (const SequenceShape& one : step.sequences) {
      positions += one.kv_len;
    }
    const double work = 6.0 * positions * use.spec.head_dim() * use.spec.rank();
    shapes.push_back({step.name, work, [spec = use.spec, step] { return expand_problem(spec, step); }});
  }
  return shapes;
}

}  // namespace rocmforge
