// Attention over pages, and the operations that fill them.

#include <algorithm>
#include <cmath>
#include <iterator>

#include "checks/difference.h"
#include "checks/inputs.h"
#include "checks/problem.h"

namespace rocmforge {
namespace {

/// Elements are rounded to the type of the pages.
double page_tolerance(DType dtype) { return dtype == DType::q8_0 ? type_tolerance(DType::q8_0) : type_tolerance(dtype); }

double pairs_of(const StepShape& step) {
  double pairs = 0.0;
  for (const SequenceShape& shape : step.sequences) {
    pairs += static_cast<double>(shape.q_len) * shape.kv_len;
  }
  return pairs;
}

/// Steps of which each kernel gets those that it supports: decodes, or prompts and mixes.
std::vector<StepShape> attention_steps(bool decode, const ShapeLimits& limits) {
  std::vector<StepShape> steps = {{"one token", {{1, 1}}},
                                  {"3 decodes", {{1, 1}, {33, 1}, {65, 1}}},
                                  {"a prompt of 17", {{17, 17}}},
                                  {"a chunk of 5 behind 60, beside decodes", {{65, 5}, {1, 1}, {33, 1}}}};
  if (limits.step) {
    std::erase_if(steps, [&](const StepShape& step) { return pairs_of(step) >= pairs_of(*limits.step); });
    steps.push_back(*limits.step);
  } else {
    std::ranges::move(steps_of_servers(), std::back_inserter(steps));
  }
  std::erase_if(steps, [&](const StepShape& step) {
    const bool single = step.has_single_rows();
    std::int64_t tokens = 0;
    std::int64_t longest = 0;
    for (const SequenceShape& shape : step.sequences) {
      tokens += shape.q_len;
      longest = std::max<std::int64_t>(longest, shape.kv_len);
    }
    const bool too_long = longest > limits.max_kv_len || tokens > std::max<std::int64_t>(limits.max_step_tokens, 17);
    return single != decode || too_long;
  });
  return steps;
}

CallProblem<Attention> attention_problem(const KernelUse<Attention>& use, const StepShape& shape) {
  const Attention::Spec& spec = use.spec;
  const KvLayout& layout = use.layout;
  CallProblem<Attention> problem;
  Random random(51);
  PagedStep step = paged_step(shape.sequences, layout.block_tokens, random);
  AttentionLimits sizes{.max_tokens = step.plan.num_tokens(), .max_sequences = step.plan.num_sequences()};
  for (const SequenceShape& one : shape.sequences) {
    sizes.max_kv_len = std::max<std::int64_t>(sizes.max_kv_len, one.kv_len);
  }
  const std::int64_t tokens = sizes.max_tokens;
  const std::int64_t q_width = std::int64_t{spec.q_heads} * spec.head_dim;
  const auto q = problem.arrays.stored("q", random_weight(spec.io_dtype, tokens, q_width, random));
  const auto pages = problem.arrays.stored("pages", random_pages(layout, step.num_blocks, random));
  const auto sinks = spec.sinks ? problem.arrays.input("sinks", random.normals(spec.q_heads, 2.0f)) : Slot<float>();
  const auto out = problem.arrays.output_of("out", spec.io_dtype, tokens * spec.q_heads, spec.out_dim());
  problem.tolerance = attention_tolerance(spec, use.kernel->device());
  problem.flops = 2.0 * pairs_of(shape) * spec.q_heads * (spec.head_dim + spec.out_dim());
  problem.bytes = static_cast<double>(step.num_blocks) * static_cast<double>(layout.block_bytes()) +
                  static_cast<double>(row_bytes(spec.io_dtype, tokens * (q_width + spec.q_heads * spec.out_dim())));
  const std::int64_t num_blocks = step.num_blocks;
  const BatchArrays batch(problem.arrays, std::move(step.plan));
  problem.bind = [=](const AttentionBackend& kernel, Placement& place) {
    AttentionLimits limits = sizes;
    limits.num_threads = place.context().pool != nullptr ? place.context().pool->num_threads() : 1;
    Attention::Args args;
    args.q = place.at(q);
    args.q_stride = q_width;
    args.cache = {place.at(pages), num_blocks};
    args.batch = batch.at(place);
    args.sinks = place.at(sinks);
    args.out = place.at(out);
    args.workspace = place.scratch(kernel.workspace_bytes(spec, limits));
    args.state = place.zeros(kernel.state_bytes(spec, limits));
    return std::function<void()>([&kernel, &place, spec, layout, args] { kernel.run(spec, layout, args, place.context()); });
  };
  return problem;
}

std::vector<float> frequencies(std::int32_t n_rot) {
  std::vector<float> values;
  for (std::int32_t p = 0; p < n_rot / 2; ++p) {
    values.push_back(static_cast<float>(std::pow(10000.0, -2.0 * p / n_rot)));
  }
  return values;
}

/// Pages before an append: poisoned, so that what is written shows.
Slot<std::byte> empty_pages(CallArrays& arrays, const KvLayout& layout, std::int64_t num_blocks) {
  const std::vector<std::byte> poison(layout.block_bytes() * static_cast<std::size_t>(num_blocks), std::byte{0xff});
  return arrays.updated_bytes("pages", poison, layout.head_dim, decode_pages(layout));
}

CallProblem<RopeAppend> rope_problem(const RopeAppend::Spec& spec, const StepShape& shape) {
  CallProblem<RopeAppend> problem;
  Random random(52);
  PagedStep step = paged_step(shape.sequences, spec.layout.block_tokens, random);
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
      spec.kind == RopeKind::none ? Slot<float>() : problem.arrays.input("frequencies", frequencies(spec.n_rot));
  const auto pages = empty_pages(problem.arrays, spec.layout, step.num_blocks);
  problem.tolerance = page_tolerance(spec.layout.dtype);
  problem.bytes = static_cast<double>(tokens * (q_width + stride)) * sizeof(float) +
                  static_cast<double>(row_bytes(spec.layout.dtype, tokens * 2 * kv_width));
  const std::int64_t num_blocks = step.num_blocks;
  const BatchArrays batch(problem.arrays, std::move(step.plan));
  problem.bind = bind_args<RopeAppend>(spec, [=](const auto&, Placement& place) {
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
  Random random(53);
  PagedStep step = paged_step(shape.sequences, spec.layout.block_tokens, random);
  const std::int64_t tokens = step.plan.num_tokens();
  const std::int64_t q_width = std::int64_t{spec.q_heads} * spec.q_dim;
  const std::int64_t kv_width = std::int64_t{spec.layout.value_dim} + spec.n_rot;
  const auto q = problem.arrays.updated("q", random.normals(tokens * q_width, 2.0f), spec.q_dim);
  const auto kv = problem.arrays.input("kv", random.normals(tokens * kv_width, 2.0f));
  const auto norm = problem.arrays.input("norm", random.uniforms(spec.layout.value_dim, 0.5f, 1.5f));
  const auto frequency = problem.arrays.input("frequencies", frequencies(spec.n_rot));
  const auto pages = empty_pages(problem.arrays, spec.layout, step.num_blocks);
  problem.tolerance = page_tolerance(spec.layout.dtype);
  problem.bytes = static_cast<double>(tokens * (2 * q_width + kv_width)) * sizeof(float) +
                  static_cast<double>(row_bytes(spec.layout.dtype, tokens * kv_width));
  const std::int64_t num_blocks = step.num_blocks;
  const BatchArrays batch(problem.arrays, std::move(step.plan));
  problem.bind = bind_args<LatentAppend>(spec, [=](const auto&, Placement& place) {
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

/// Both kinds of steps, for operations that make no difference.
std::vector<StepShape> all_steps(const ShapeLimits& limits) {
  std::vector<StepShape> steps = attention_steps(true, limits);
  for (StepShape& step : attention_steps(false, limits)) {
    steps.push_back(std::move(step));
  }
  return steps;
}

/// Shapes of an operation with work for each token of a step.
template <class Op, class Make>
std::vector<CallShape<Op>> shapes_by_steps(const ShapeLimits& limits, double work, Make make) {
  std::vector<CallShape<Op>> shapes;
  for (const StepShape& step : all_steps(limits)) {
    double positions = 0.0;
    for (const SequenceShape& one : step.sequences) {
      positions += one.kv_len;
    }
    shapes.push_back({step.name, work * positions, [make, step] { return make(step); }});
  }
  return shapes;
}

}  // namespace

double attention_tolerance(const Attention::Spec& spec, DeviceKind device) {
  const double io = type_tolerance(spec.io_dtype);
  // No kernel rounds the values of Q8_0 pages more coarsely than F16. The CPU computes in F32 from pages of any type.
  const DType pages = spec.kv_dtype == DType::q8_0 ? DType::f16 : spec.kv_dtype;
  return device == DeviceKind::cpu ? io : std::max(io, type_tolerance(pages));
}

template <>
std::vector<CallShape<Attention>> shapes_of(const KernelUse<Attention>& use, const ShapeLimits& limits) {
  std::vector<CallShape<Attention>> shapes;
  for (const StepShape& step : attention_steps(use.spec.decode, limits)) {
    const double work = pairs_of(step) * use.spec.q_heads * (use.spec.head_dim + use.spec.out_dim());
    shapes.push_back({step.name, work, [use, step] { return attention_problem(use, step); }});
  }
  return shapes;
}

template <>
std::vector<CallShape<RopeAppend>> shapes_of(const KernelUse<RopeAppend>& use, const ShapeLimits& limits) {
  return shapes_by_steps<RopeAppend>(limits,
                                     static_cast<double>((use.spec.q_heads + use.spec.layout.planes()) * use.spec.head_dim),
                                     [spec = use.spec](const StepShape& step) { return rope_problem(spec, step); });
}

template <>
std::vector<CallShape<LatentAppend>> shapes_of(const KernelUse<LatentAppend>& use, const ShapeLimits& limits) {
  return shapes_by_steps<LatentAppend>(limits, static_cast<double>(use.spec.q_heads * use.spec.q_dim),
                                       [spec = use.spec](const StepShape& step) { return latent_problem(spec, step); });
}

}  // namespace rocmforge
