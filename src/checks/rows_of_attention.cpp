// Attention over pages.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/math.h"
#include "checks/difference.h"
#include "checks/inputs.h"
#include "checks/problem.h"

namespace rocmforge {
namespace {

double pairs_of(const StepShape& step) {
  double pairs = 0.0;
  for (const SequenceShape& shape : step.sequences) {
    pairs += static_cast<double>(shape.q_len) * shape.kv_len;
  }
  return pairs;
}

/// Those of the steps that are within the limits; with a step that is wanted, that and what is less work.
std::vector<StepShape> within(const ShapeLimits& limits, std::vector<StepShape> steps, bool single_rows) {
  if (limits.step) {
    std::erase_if(steps, [&](const StepShape& step) { return pairs_of(step) >= pairs_of(*limits.step); });
    if (limits.step->has_single_rows() == single_rows) {
      steps.push_back(*limits.step);
    }
  }
  drop_longer(steps, limits.max_step_tokens, limits.max_kv_len);
  return steps;
}

std::vector<StepShape> decode_steps(const ShapeLimits& limits) {
  std::vector<StepShape> steps = {{"one token", {{1, 1}}},
                                  {"3 decodes", {{1, 1}, {33, 1}, {65, 1}}},
                                  {"one token behind 4,095", {{4096, 1}}},
                                  {"one token behind 131,072", {{131073, 1}}},
                                  ragged_decodes(256)};
  return within(limits, std::move(steps), true);
}

/// Up to `rows` rows a sequence, as drafts that are verified.
std::vector<StepShape> few_row_steps(std::int32_t rows, const ShapeLimits& limits) {
  std::vector<StepShape> steps = {
      {fmt::format("{} rows behind 60", rows), {{60 + rows, rows}}},
      {fmt::format("1 to {} rows", rows), {{1, 1}, {33 + rows, rows}, {300, rows - 1}, {65, 1}}},
      {fmt::format("{} rows behind 8,191", rows), {{8191 + rows, rows}}},
  };
  drop_longer(steps, limits.max_step_tokens, limits.max_kv_len);
  return steps;
}

/// Prompts of one length: as many as give each unit of the device `works` tiles, one of them for each head.
StepShape prompts_for(const Attention::Spec& spec, std::int32_t length, const ShapeLimits& limits, std::int32_t works) {
  const std::int64_t count = divide_up(std::int64_t{works} * limits.units, spec.q_heads);
  return prompts_of(static_cast<std::int32_t>(std::clamp<std::int64_t>(count, 2, 300)), length);
}

/// Prompts around the sizes of tiles, all of them together.
StepShape prompts_around_tiles(std::int32_t rounds) {
  const std::span<const std::int32_t> lengths = lengths_around_tiles();
  StepShape step{std::to_string(rounds * std::ssize(lengths)) + " prompts around the sizes of tiles", {}};
  for (std::int32_t i = 0; i < rounds; ++i) {
    for (const std::int32_t length : lengths) {
      step.sequences.push_back({length, length});
    }
  }
  return step;
}

/// Steps with prompts: some lengths alone, all of them together; long ones, and mixes. One of them gives each unit ten
/// works: kernels take them in turn, and a fault of the turn shows from the second on.
std::vector<StepShape> prompt_steps(const Attention::Spec& spec, const ShapeLimits& limits) {
  constexpr std::int32_t many = 10;
  constexpr std::int32_t several = 3;
  const StepShape small{"a prompt of 17", {{17, 17}}};
  const StepShape around{"prompts of 79, 128 and 64", {{79, 79}, {128, 128}, {64, 64}}};
  if (limits.is_alike) {
    return within(limits, {small, around, prompts_for(spec, 80, limits, several), mixed_step(8)}, false);
  }
  std::vector<StepShape> steps = {small, {"a chunk of 5 behind 60, beside decodes", {{65, 5}, {1, 1}, {33, 1}}}, around};
  steps.push_back(prompts_for(spec, 60, limits, many));
  for (const std::int32_t length : {16, 80, 129}) {
    steps.push_back(prompts_for(spec, length, limits, several));
  }
  steps.push_back(prompts_around_tiles(2));
  if (limits.is_repeated) {
    steps.push_back({"a prompt of 1,024", {{1024, 1024}}});
  } else {
    steps.push_back({"a prompt of 2,048", {{2048, 2048}}});
    steps.push_back({"a chunk of 512 behind 8,191", {{8703, 512}}});
  }
  steps.push_back({"a chunk of 129 behind 4,095", {{4224, 129}}});
  steps.push_back(mixed_step(16));
  return within(limits, std::move(steps), false);
}

std::vector<StepShape> steps_of(const Attention::Spec& spec, const ShapeLimits& limits) {
  if (spec.most_rows > 1) {
    return few_row_steps(spec.most_rows, limits);
  }
  return spec.has_single_rows() ? decode_steps(limits) : prompt_steps(spec, limits);
}

/// Q, K and V side by side, for a decode step whose append is part of the call.
struct AppendArrays {
  RopeAppend::Spec spec;
  Slot<float> rows, norm, frequency;
  std::int64_t stride = 0;

  AppendArrays(CallArrays& arrays, const Attention::Spec& attention, const KvLayout& layout, std::int64_t tokens,
               PooledRandom& random)
      : spec(spec_for(attention, layout)),
        stride(std::int64_t{attention.q_heads + 2 * attention.kv_heads} * attention.head_dim) {
    rows = arrays.used_up("q, k and v", random.normals(tokens * stride, 2.0f));
    norm = arrays.input("norm of q and k", random.uniforms(spec.head_dim, 0.5f, 1.5f));
    frequency = arrays.input("frequencies", rotary_frequencies(spec.n_rot));
  }
  static RopeAppend::Spec spec_for(const Attention::Spec& attention, const KvLayout& layout) {
    return {.kind = RopeKind::half,
            .q_heads = attention.q_heads,
            .head_dim = attention.head_dim,
            .n_rot = attention.head_dim,
            .head_norm = true,
            .layout = layout};
  }
  /// Before attention with `call`, which gets its q.
  Attention::Append at(const PlacedArrays& place, Attention::Args& call) const {
    float* const q = place.at(rows);
    call.q = q;
    call.q_stride = stride;
    const float* const k = q + std::int64_t{spec.q_heads} * spec.head_dim;
    return {spec,
            {.q = q,
             .k = k,
             .v = k + std::int64_t{spec.layout.kv_heads} * spec.head_dim,
             .stride = stride,
             .q_norm = place.at(norm),
             .k_norm = place.at(norm),
             .inverse_frequency = place.at(frequency),
             .cache = call.cache,
             .batch = call.batch}};
  }
};

/// A step's pages: read, and with an append also written.
Slot<std::byte> pages_of(CallArrays& arrays, const KvLayout& layout, std::int64_t num_blocks, bool written,
                         PooledRandom& random) {
  std::vector<std::byte> pages = random_pages(layout, num_blocks, random);
  return written ? arrays.updated_bytes("pages", std::move(pages), layout.head_dim, decode_pages(layout))
                 : arrays.stored("pages", std::move(pages));
}

/// The middle third of each sequence's rows see each other, as those of an image.
void add_spans(BatchPlan& plan) {
  for (std::int32_t s = 0; s < plan.num_sequences(); ++s) {
    const auto index = static_cast<std::size_t>(s);
    const std::int32_t rows = plan.q_len(s);
    const std::int32_t own = plan.kv_lengths[index] - rows + 1;  // what the first row sees by itself
    for (std::int32_t row = 0; row < rows; ++row) {
      const bool inside = row >= rows / 3 && row < 2 * rows / 3;
      plan.visible_end.push_back(own + (inside ? 2 * rows / 3 - 1 : row));
    }
  }
}

/// So many different blocks are several times as large as caches. Steps of more positions read some of them several times.
std::int32_t most_read_blocks(const KvLayout& layout) {
  constexpr std::size_t most_bytes = std::size_t{256} << 20;
  return static_cast<std::int32_t>(std::max<std::size_t>(most_bytes / layout.block_bytes(), 1));
}

AttentionLimits sizes_of(const BatchPlan& plan) {
  return {.max_tokens = plan.num_tokens(),
          .max_sequences = plan.num_sequences(),
          .max_kv_len = *std::ranges::max_element(plan.kv_lengths)};
}

/// `append`: K and V of the step's tokens are appended in the same call.
CallProblem<Attention> attention_problem(const KernelUse<Attention>& use, const StepShape& shape, bool append) {
  const Attention::Spec& spec = use.spec;
  const KvLayout& layout = use.layout;
  CallProblem<Attention> problem;
  PooledRandom random(51);
  const std::int32_t most_blocks = append ? std::numeric_limits<std::int32_t>::max() : most_read_blocks(layout);
  PagedStep step = paged_step(shape.sequences, layout.block_tokens, random, most_blocks);
  if (spec.spans) {
    add_spans(step.plan);
  }
  const AttentionLimits sizes = sizes_of(step.plan);
  const std::int64_t tokens = sizes.max_tokens;
  const std::int64_t q_width = std::int64_t{spec.q_heads} * spec.head_dim;
  std::optional<AppendArrays> appended;
  Slot<std::byte> q;
  if (append) {
    appended.emplace(problem.arrays, spec, layout, tokens, random);
  } else {
    q = problem.arrays.stored("q", random_weight(spec.io_dtype, tokens, q_width, random));
  }
  const auto pages = pages_of(problem.arrays, layout, step.num_blocks, append, random);
  const auto sinks = spec.sinks ? problem.arrays.input("sinks", random.normals(spec.q_heads, 2.0f)) : Slot<float>();
  const auto out = problem.arrays.output_of("out", spec.io_dtype, tokens * spec.q_heads, spec.out_dim());
  problem.tolerance = attention_tolerance(spec, use.kernel->device());
  problem.flops = 2.0 * pairs_of(shape) * spec.q_heads * (spec.head_dim + spec.out_dim());
  problem.bytes = static_cast<double>(step.num_blocks) * static_cast<double>(layout.block_bytes()) +
                  static_cast<double>(row_bytes(spec.io_dtype, tokens * (q_width + spec.q_heads * spec.out_dim())));
  const std::int64_t num_blocks = step.num_blocks;
  const BatchArrays batch(problem.arrays, std::move(step.plan));
  problem.bind = [=](const AttentionBackend& kernel, PlacedArrays& place) {
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
    const Attention::Append first = appended ? appended->at(place, args) : Attention::Append();
    return std::function<void()>([&kernel, &place, spec, layout, args, append, first] {
      Attention::Args call = args;
      call.append = append ? &first : nullptr;
      kernel.run(spec, layout, call, place.context());
    });
  };
  return problem;
}

}  // namespace

double attention_tolerance(const Attention::Spec& spec, DeviceKind device) {
  const double io = type_tolerance(spec.io_dtype);
  // No kernel rounds the values of quantised pages more coarsely than F16. The CPU computes in F32 from pages of any type.
  const auto of_pages = [](DType type) { return type_tolerance(is_kv_quant(type) ? DType::f16 : type); };
  return device == DeviceKind::cpu ? io : std::max({io, of_pages(spec.kv_dtype.k), of_pages(spec.kv_dtype.v)});
}

template <>
std::vector<CallShape<Attention>> shapes_of(const KernelUse<Attention>& use, const ShapeLimits& limits) {
  std::vector<CallShape<Attention>> shapes;
  const auto add = [&](const StepShape& step, bool append) {
    const double work = pairs_of(step) * use.spec.q_heads * (use.spec.head_dim + use.spec.out_dim());
    shapes.push_back({append ? "append, then " + step.name : step.name, work,
                      [use, step, append] { return attention_problem(use, step, append); }});
  };
  for (const StepShape& step : steps_of(use.spec, limits)) {
    add(step, false);
  }
  if (!limits.step && use.kernel->takes(use.spec, AppendArrays::spec_for(use.spec, use.layout))) {
    std::vector<StepShape> steps = {{"3 decodes", {{1, 1}, {33, 1}, {65, 1}}}, ragged_decodes(32)};
    drop_longer(steps, limits.max_step_tokens, limits.max_kv_len);
    for (const StepShape& step : steps) {
      add(step, true);
    }
  }
  return shapes;
}

}  // namespace rocmforge
