#include "conformance/attention_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rocmforge::test {
namespace {

/// K or V as a dense tensor; positions past a sequence's length stay NaN.
std::vector<std::byte> dense_tensor(const AttentionProblem& problem, const std::vector<std::vector<float>>& values,
                                    const DenseKv& strides, std::int64_t elements) {
  std::vector<float> tensor = poisoned(elements);
  const std::int32_t head_dim = problem.spec.head_dim;
  for (std::size_t s = 0; s < values.size(); ++s) {
    for (std::int64_t t = 0; t < problem.shapes[s].kv_len; ++t) {
      for (std::int64_t h = 0; h < problem.spec.kv_heads; ++h) {
        const std::int64_t to =
            static_cast<std::int64_t>(s) * strides.sequence_stride + t * strides.token_stride + h * strides.head_stride;
        std::copy_n(values[s].begin() + (t * problem.spec.kv_heads + h) * head_dim, head_dim, tensor.begin() + to);
      }
    }
  }
  return to_bytes(problem.spec.kv_dtype.k, tensor);
}

DenseKv dense_kv(const AttentionProblem& problem, bool heads_first, Arena& arena) {
  std::int64_t longest = 0;
  for (const SequenceShape& shape : problem.shapes) {
    longest = std::max<std::int64_t>(longest, shape.kv_len);
  }
  const std::int64_t head_dim = problem.spec.head_dim;
  const std::int64_t kv_heads = problem.spec.kv_heads;
  DenseKv dense;
  dense.sequence_stride = longest * kv_heads * head_dim;
  dense.token_stride = heads_first ? head_dim : kv_heads * head_dim;
  dense.head_stride = heads_first ? longest * head_dim : head_dim;
  const std::int64_t elements = dense.sequence_stride * static_cast<std::int64_t>(problem.shapes.size());
  dense.k = arena.in(dense_tensor(problem, problem.kv.k, dense, elements));
  dense.v = arena.in(dense_tensor(problem, problem.kv.v, dense, elements));
  return dense;
}

std::vector<float> with_extra(std::span<const float> q, std::int64_t width, std::int64_t stride) {
  const std::int64_t rows = static_cast<std::int64_t>(q.size()) / width;
  std::vector<float> spaced = poisoned(rows * stride);
  for (std::int64_t t = 0; t < rows; ++t) {
    std::copy_n(q.begin() + t * width, width, spaced.begin() + t * stride);
  }
  return spaced;
}

AttentionLimits limits_of(const BatchPlan& plan, const ExecutionContext& context) {
  return {.max_tokens = plan.num_tokens(),
          .max_sequences = plan.num_sequences(),
          .max_kv_len = plan.view().max_kv_len,
          .num_threads = context.pool != nullptr ? context.pool->num_threads() : 1};
}

/// No pages; a sequence may have more queries than keys.
BatchPlan dense_batch(std::span<const SequenceShape> shapes) {
  BatchPlan plan;
  plan.clear();
  for (const SequenceShape& shape : shapes) {
    plan.add_sequence(std::vector<std::int32_t>(static_cast<std::size_t>(shape.q_len), 1), 0, {}, true);
  }
  plan.kv_lengths = kv_lengths(shapes);
  return plan;
}

/// Row `i` of `rows` rows at even distances from a sequence's first to its last row.
std::int32_t chosen_row(const SequenceShape& shape, std::int32_t i, std::int32_t rows) {
  return static_cast<std::int32_t>(std::int64_t{shape.q_len - 1} * i / std::max(1, rows - 1));
}

/// Padding rows must be zeros where they are computed.
void check_padding(std::span<const float> rows, Attention::Rows computed) {
  for (const float value : rows) {
    ASSERT_TRUE(computed == Attention::Rows::several ? std::isnan(value) : value == 0.0f) << "a padding row holds " << value;
  }
}

}  // namespace

std::vector<std::int32_t> kv_lengths(std::span<const SequenceShape> shapes) {
  std::vector<std::int32_t> lengths;
  for (const SequenceShape& shape : shapes) {
    lengths.push_back(shape.kv_len);
  }
  return lengths;
}

double attention_tolerance(const Attention::Spec& spec, DeviceKind device) {
  const double io = tolerance(spec.io_dtype);
  // K and V are the values that quantised types store exactly. No kernel rounds them more coarsely than f16.
  const auto of = [](DType type) { return tolerance(is_kv_quant(type) ? DType::f16 : type); };
  return device == DeviceKind::cpu ? io : std::max({io, of(spec.kv_dtype.k), of(spec.kv_dtype.v)});
}

AttentionProblem::AttentionProblem(const Attention::Spec& problem_spec, std::vector<SequenceShape> problem_shapes,
                                   std::uint64_t seed, float spread)
    : spec(problem_spec), shapes(std::move(problem_shapes)) {
  Random random(seed);
  std::int64_t tokens = 0;
  for (const SequenceShape& shape : shapes) {
    tokens += shape.q_len;
    mask_stride = std::max<std::int64_t>(mask_stride, shape.kv_len + 3);
  }
  q = random.normals(tokens * width(), spread);
  round_all(spec.io_dtype, q);
  kv = PagedSequences(kv_lengths(shapes), spec.kv_dtype, spec.kv_heads, spec.head_dim, random, spread);
  sinks = spec.sinks ? random.normals(spec.q_heads) : std::vector<float>();
  if (spec.mask) {
    mask = random.normals(tokens * mask_stride, 2.0f);
    for (float& value : mask) {
      value = random.below(4) == 0 ? -std::numeric_limits<float>::infinity() : value;
    }
  }
}

std::vector<float> AttentionProblem::run(const AttentionBackend& kernel, const AttentionCall& call) const {
  KvLayout layout = kernel.layout(spec);
  layout.block_tokens = call.block_tokens != 0 ? call.block_tokens : layout.block_tokens;
  PagedCache cache(layout, kv_lengths(shapes), call.block_seed);
  for (std::size_t s = 0; s < shapes.size() && !call.dense; ++s) {
    cache.write(kv, s, 0, shapes[s].kv_len);
  }
  return run_attention(kernel, *this, cache, shapes, q, call);
}

std::vector<float> AttentionProblem::run_reference(const AttentionCall& call) const {
  return run(harness().reference<Attention>(spec), call);
}

std::vector<float> AttentionProblem::run_reference_of_rows(std::int32_t rows) const {
  check(!spec.mask, "the mask's rows would have to be chosen too");
  check(spec.causal, "a row that ends its sequence sees no keys behind it");
  const AttentionBackend& reference = harness().reference<Attention>(spec);
  PagedCache cache(reference.layout(spec), kv_lengths(shapes), 1);
  std::vector<SequenceShape> chosen;  // each row as a sequence that ends with it
  std::vector<std::size_t> sequences;
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    cache.write(kv, s, 0, shapes[s].kv_len);
    for (std::int32_t i = 0; i < rows; ++i) {
      chosen.push_back({shapes[s].kv_len - shapes[s].q_len + chosen_row(shapes[s], i, rows) + 1, 1});
      sequences.push_back(s);
    }
  }
  cache.choose_sequences(sequences);
  return run_attention(reference, *this, cache, chosen, pick(q, rows));
}

std::vector<float> AttentionProblem::pick(std::span<const float> all, std::int32_t rows) const {
  const std::int64_t row_width = static_cast<std::int64_t>(all.size()) / tokens();
  std::vector<float> picked;
  std::int64_t first = 0;
  for (const SequenceShape& shape : shapes) {
    for (std::int32_t i = 0; i < rows; ++i) {
      const std::int64_t row = first + chosen_row(shape, i, rows);
      picked.insert(picked.end(), all.begin() + row * row_width, all.begin() + (row + 1) * row_width);
    }
    first += shape.q_len;
  }
  return picked;
}

std::vector<float> run_attention(const AttentionBackend& kernel, const AttentionProblem& problem, PagedCache& cache,
                                 std::span<const SequenceShape> shapes, std::span<const float> q,
                                 const AttentionCall& call) {
  const Attention::Spec& spec = problem.spec;
  Place place = harness().place_of(kernel);
  place.context = call.context != nullptr ? *call.context : place.context;
  const std::int32_t padding = kernel.device() == DeviceKind::cpu && kernel.name() != "reference" ? 0 : call.padding;
  BatchPlan plan = call.dense ? dense_batch(shapes) : make_batch(shapes, cache, call.spans);
  plan.add_padding(padding);
  plan.finish();
  const AttentionLimits limits = limits_of(plan, place.context);
  const std::int64_t width = problem.width();

  Arena arena(place);
  Attention::Args args;
  args.q_stride = width + call.q_extra;
  std::vector<float> rows(q.begin(), q.end());
  rows.resize(static_cast<std::size_t>(plan.num_tokens() * width), std::nanf(""));
  args.q = arena.in(to_bytes(spec.io_dtype, with_extra(rows, width, args.q_stride)));
  args.batch = arena.batch(plan);
  if (call.dense) {
    args.dense = dense_kv(problem, call.heads_first, arena);
    args.batch.block_tables = nullptr;
  } else {
    args.cache = {const_cast<std::byte*>(arena.in(cache.bytes())), cache.view().num_blocks};
  }
  args.sinks = spec.sinks ? arena.in(problem.sinks) : nullptr;
  if (spec.mask) {
    std::vector<float> mask = problem.mask;
    mask.resize(static_cast<std::size_t>(plan.num_tokens() * problem.mask_stride), std::nanf(""));
    args.mask = arena.in(mask);
    args.mask_stride = problem.mask_stride;
  }
  const std::int64_t out_bytes = std::int64_t(row_bytes(spec.io_dtype, plan.num_tokens() * problem.out_width()));
  auto* out = arena.out<std::byte>(out_bytes);
  args.out = out;
  args.rows = call.rows;
  args.workspace = arena.workspace(kernel.workspace_bytes(spec, limits));
  args.state = arena.state(kernel.state_bytes(spec, limits));
  arena.run([&](ExecutionContext& context) { kernel.run(spec, cache.layout(), args, context); });

  std::vector<float> result = to_floats(spec.io_dtype, arena.read(out, out_bytes));
  check_padding(std::span(result).last(static_cast<std::size_t>(padding * problem.out_width())), call.rows);
  result.resize(result.size() - static_cast<std::size_t>(padding * problem.out_width()));
  return result;
}

}  // namespace rocmforge::test
