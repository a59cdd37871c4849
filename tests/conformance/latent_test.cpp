// Expected values come from the definitions, written out here in double: the reference is tested along with the kernels of
// the device.

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <gmock/gmock.h>

#include "conformance/attention_cases.h"
#include "tensor/quant/dequantize.h"
#include "tensor/random_rows.h"

namespace rocmforge::test::latent_test {
namespace {

struct AppendCase {
  std::int32_t q_heads = 3;
  std::int32_t q_dim = 24;
  std::int32_t rank = 32;
  std::int32_t n_rot = 16;
  DType dtype = DType::f32;
  RopeKind kind = RopeKind::adjacent;
  float magnitude = 1.0f;
  std::int32_t padding = 0;
  float temperature_scale = 0.0f;

  [[nodiscard]] LatentAppend::Spec spec() const {
    return {.kind = kind,
            .q_heads = q_heads,
            .q_dim = q_dim,
            .n_rot = n_rot,
            .norm_eps = 1e-4f,
            .magnitude = magnitude,
            .temperature_scale = temperature_scale,
            .temperature_length = 7,
            .layout = {.dtype = dtype, .block_tokens = 16, .kv_heads = 1, .head_dim = rank + n_rot, .value_dim = rank}};
  }
};

/// Element p and the element that is rotated with it.
std::pair<std::int32_t, std::int32_t> pair_at(const AppendCase& c, std::int32_t p) {
  return c.kind == RopeKind::adjacent ? std::pair{2 * p, 2 * p + 1} : std::pair{p, p + c.n_rot / 2};
}

std::vector<float> turned(const AppendCase& c, const float* x, std::int32_t position, const std::vector<float>& frequency) {
  std::vector<float> out(x, x + c.n_rot);
  for (std::int32_t p = 0; c.kind != RopeKind::none && p < c.n_rot / 2; ++p) {
    const auto [first, second] = pair_at(c, p);
    const double angle = double{static_cast<float>(position) * frequency[static_cast<std::size_t>(p)]};
    const double size = double{c.magnitude};
    out[static_cast<std::size_t>(first)] =
        static_cast<float>(size * (double{x[first]} * std::cos(angle) - double{x[second]} * std::sin(angle)));
    out[static_cast<std::size_t>(second)] =
        static_cast<float>(size * (double{x[first]} * std::sin(angle) + double{x[second]} * std::cos(angle)));
  }
  return out;
}

/// One token's row of the latent plane, as it is stored.
std::vector<float> expected_row(const AppendCase& c, const float* kv, const std::vector<float>& norm, std::int32_t position,
                                const std::vector<float>& frequency) {
  double squares = 0.0;
  for (std::int32_t i = 0; i < c.rank; ++i) {
    squares += double{kv[i]} * double{kv[i]};
  }
  const double scale = 1.0 / std::sqrt(squares / c.rank + double{c.spec().norm_eps});
  std::vector<float> row;
  for (std::int32_t i = 0; i < c.rank; ++i) {
    row.push_back(static_cast<float>(double{kv[i]} * scale * double{norm[static_cast<std::size_t>(i)]}));
  }
  const std::vector<float> tail = turned(c, kv + c.rank, position, frequency);
  row.insert(row.end(), tail.begin(), tail.end());
  round_all(c.dtype, row);
  return row;
}

void expect_append(const AppendCase& c, const OpKernel<LatentAppend>& kernel) {
  SCOPED_TRACE(to_string(c.spec()));
  const std::vector<SequenceShape> shapes = {{37, 5}, {20, 20}, {17, 1}};
  PagedCache cache(c.spec().layout, kv_lengths(shapes), 8);
  BatchPlan plan = make_batch(shapes, cache);
  const std::int64_t tokens = plan.num_tokens();
  plan.add_padding(c.padding);
  plan.finish();
  const std::int64_t q_width = std::int64_t{c.q_heads} * c.q_dim;
  const std::int64_t q_stride = q_width + 3;
  const std::int64_t kv_stride = c.rank + c.n_rot + 5;
  Random random(77);
  const std::vector<float> q = random.normals(plan.num_tokens() * q_stride, 2.0f);
  const std::vector<float> kv = random.normals(plan.num_tokens() * kv_stride, 2.0f);
  const std::vector<float> norm = random.uniforms(c.rank, 0.5f, 1.5f);
  std::vector<float> frequency;
  for (std::int32_t p = 0; p < c.n_rot / 2; ++p) {
    frequency.push_back(static_cast<float>(std::pow(100.0, -2.0 * p / c.n_rot)));
  }

  Arena arena(harness().place_of(kernel));
  auto* q_out = arena.in_out(q);
  auto* pages = arena.in_out(cache.bytes());
  const LatentAppend::Args args{.q = q_out,
                                .q_stride = q_stride,
                                .kv = arena.in(kv),
                                .kv_stride = kv_stride,
                                .norm = arena.in(norm),
                                .inverse_frequency = arena.in(frequency),
                                .cache = {pages, cache.view().num_blocks},
                                .batch = arena.batch(plan)};
  arena.run([&](ExecutionContext& context) { kernel.run(c.spec(), args, context); });
  const std::vector<float> q_after = arena.read(q_out, static_cast<std::int64_t>(q.size()));
  cache.assign(arena.read(pages, static_cast<std::int64_t>(cache.bytes().size())));

  std::vector<float> expected_q = q;
  std::vector<float> expected_rows;
  std::vector<float> rows;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto s = static_cast<std::size_t>(plan.sequence_of[static_cast<std::size_t>(t)]);
    const std::int32_t position = plan.positions[static_cast<std::size_t>(t)];
    for (std::int32_t h = 0; h < c.q_heads; ++h) {
      const std::int64_t at = t * q_stride + (h + 1) * std::int64_t{c.q_dim} - c.n_rot;
      std::ranges::copy(turned(c, q.data() + at, position, frequency), expected_q.begin() + at);
      const auto end = expected_q.begin() + at + c.n_rot;
      const double factor = 1.0 + double{c.temperature_scale} * std::log(1.0 + position / 7);
      std::transform(end - c.q_dim, end, end - c.q_dim,
                     [factor](float value) { return static_cast<float>(double{value} * factor); });
    }
    const std::vector<float> row = expected_row(c, kv.data() + t * kv_stride, norm, position, frequency);
    expected_rows.insert(expected_rows.end(), row.begin(), row.end());
    for (std::int32_t i = 0; i < c.rank + c.n_rot; ++i) {
      rows.push_back(cache.k(s, position, 0, i));
    }
  }
  const auto computed = static_cast<std::size_t>(tokens * q_stride);
  EXPECT_LE(relative_error(std::span(q_after).first(computed), std::span(expected_q).first(computed)), 1e-6);
  // A kernel in float may round a value to another neighbour in the stored type.
  EXPECT_LE(relative_error(rows, expected_rows), c.dtype == DType::f32 ? 1e-6 : tolerance(c.dtype));
  EXPECT_EQ(cache.written_elements(), tokens * (c.rank + c.n_rot)) << "wrote other positions too";
}

TEST(LatentAppend, TinyEqualsTheDefinition) {
  const std::vector<AppendCase> cases = {
      {},
      {.q_heads = 5, .q_dim = 192, .rank = 512, .n_rot = 64, .dtype = DType::f16, .magnitude = 1.3f},
      {.q_heads = 1, .q_dim = 8, .rank = 8, .n_rot = 8, .dtype = DType::bf16},
      {.q_heads = 9, .q_dim = 40, .rank = 64, .n_rot = 32, .dtype = DType::q8_0},
      {.dtype = DType::f16, .kind = RopeKind::half},
      {.dtype = DType::f16, .kind = RopeKind::none},
      {.q_heads = 20, .dtype = DType::f16},
      {.q_heads = 3, .dtype = DType::f16, .temperature_scale = 0.3f},
  };
  for (const AppendCase& c : cases) {
    harness().for_each_kernel_or_reference<LatentAppend>(
        c.spec(), [&](const OpKernel<LatentAppend>& kernel) { expect_append(c, kernel); });
  }
}

TEST(LatentAppend, TinyPaddingAppendsNothing) {
  AppendCase c{.dtype = DType::f16, .padding = 3};
  if (!harness().is_gpu()) {
    GTEST_SKIP() << "a step of the CPU has no padding";
  }
  harness().for_each_kernel_or_reference<LatentAppend>(
      c.spec(), [&](const OpKernel<LatentAppend>& kernel) { expect_append(c, kernel); });
}

struct HeadProblem {
  HeadMatmul::Spec spec;
  std::int64_t tokens = 0;
  std::int64_t large_token = -1;  ///< its numbers reach 10^6

  [[nodiscard]] std::int64_t x_stride() const { return spec.heads * (spec.k + spec.tail) + 12; }
  /// Token t draws the same numbers whatever the number of tokens.
  [[nodiscard]] std::vector<float> x() const {
    std::vector<float> all;
    for (std::int64_t t = 0; t < tokens; ++t) {
      Random random(static_cast<std::uint64_t>(500 + t));
      const float most = t == large_token ? 1e6f : 1.0f;
      const std::vector<float> own = random.uniforms(x_stride(), -most, most);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }
  /// Rows [heads, n, k].
  [[nodiscard]] std::vector<std::byte> rows() const {
    Random random(19);
    return random_rows(spec.weight, spec.heads * spec.n, spec.k, random);
  }
  [[nodiscard]] std::int64_t outputs() const { return tokens * spec.heads * (spec.n + spec.tail); }
};

std::vector<float> expected_of(const HeadProblem& problem) {
  const HeadMatmul::Spec& spec = problem.spec;
  const std::vector<float> x = problem.x();
  const std::vector<std::byte> rows = problem.rows();
  std::vector<float> out(static_cast<std::size_t>(problem.outputs()));
  std::vector<float> weight(static_cast<std::size_t>(spec.k));
  for (std::int64_t row = 0; row < spec.heads * spec.n; ++row) {
    dequantize_row(spec.weight, rows.data() + static_cast<std::size_t>(row) * row_bytes(spec.weight, spec.k), weight.data(),
                   spec.k);
    const std::int64_t head = row / spec.n;
    for (std::int64_t t = 0; t < problem.tokens; ++t) {
      const float* from = x.data() + t * problem.x_stride() + head * (spec.k + spec.tail);
      float* to = out.data() + (t * spec.heads + head) * (spec.n + spec.tail);
      double sum = 0.0;
      for (std::size_t i = 0; i < weight.size(); ++i) {
        sum += double{from[i]} * double{weight[i]};
      }
      to[row % spec.n] = static_cast<float>(sum);
      std::copy_n(from + spec.k, spec.tail, to + spec.n);
    }
  }
  return out;
}

std::vector<float> run_heads(const HeadMatmulKernel& kernel, const HeadProblem& problem) {
  Arena arena(harness().place_of(kernel));
  const HeadMatmul::Spec& spec = problem.spec;
  std::vector<std::byte> rows = problem.rows();
  std::size_t bytes = rows.size() / static_cast<std::size_t>(spec.heads);
  if (const std::size_t packed_bytes = kernel.packed_bytes(spec); packed_bytes > 0) {
    PoisonedBytes packed(packed_bytes * static_cast<std::size_t>(spec.heads));
    for (std::size_t head = 0; head < static_cast<std::size_t>(spec.heads); ++head) {
      kernel.pack(spec, rows.data() + head * bytes, packed.data() + head * packed_bytes, harness().host.context);
    }
    EXPECT_TRUE(packed.intact());
    rows.assign(packed.bytes().begin(), packed.bytes().end());
    bytes = packed_bytes;
  }
  auto* out = arena.out<float>(problem.outputs());
  const HeadMatmul::Args args{.x = arena.in(problem.x()),
                              .x_stride = problem.x_stride(),
                              .tokens = problem.tokens,
                              .weight = arena.in(rows),
                              .head_bytes = static_cast<std::int64_t>(bytes),
                              .out = out,
                              .workspace = arena.workspace(kernel.workspace_bytes(spec, problem.tokens))};
  arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
  return arena.read(out, problem.outputs());
}

/// The error of few outputs may exceed the average that tolerance() is for. On GPUs no activation has less than 16 bits.
double heads_tolerance(DType weight, bool gpu) {
  const bool sixteen_bits = gpu && weight != DType::f32 && weight != DType::bf16;
  return sixteen_bits ? 1e-3 : 2 * tolerance(weight);
}

void expect_heads(const HeadProblem& problem) {
  const std::vector<float> expected = expected_of(problem);
  const auto expect = [&](const HeadMatmulKernel& kernel) {
    EXPECT_LE(relative_error(run_heads(kernel, problem), expected),
              heads_tolerance(problem.spec.weight, kernel.device() != DeviceKind::cpu))
        << kernel.name() << " " << to_string(problem.spec) << ", " << problem.tokens << " tokens";
  };
  harness().for_each_kernel<HeadMatmul>(problem.spec, expect);
  if (!harness().is_gpu()) {
    expect(harness().reference<HeadMatmul>(problem.spec));
  }
}

class HeadMatmulOf : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    const HeadMatmul::Spec spec{.weight = GetParam(), .heads = 3, .n = 40, .k = 256};
    if (harness().is_gpu() && !harness().serves<HeadMatmul>(spec)) {
      GTEST_SKIP() << "GPUs have no kernel for " << to_string(spec);
    }
  }
};

TEST_P(HeadMatmulOf, TinyEqualsTheDefinition) {
  expect_heads({{.weight = GetParam(), .heads = 3, .n = 40, .k = 256, .tail = 0}, 1});
  expect_heads({{.weight = GetParam(), .heads = 2, .n = 24, .k = 512, .tail = 16}, 5});
}

/// More tokens than few_tokens(): a partial tile of tokens and of rows, its second part, and a second tile.
TEST_P(HeadMatmulOf, TinyManyTokensEqualTheDefinition) {
  expect_heads({{.weight = GetParam(), .heads = 2, .n = 72, .k = 512, .tail = 16}, 9});
  expect_heads({{.weight = GetParam(), .heads = 1, .n = 33, .k = 256, .tail = 0}, 33});
}

TEST_P(HeadMatmulOf, ManyTokens) {
  expect_heads({{.weight = GetParam(), .heads = 16, .n = 512, .k = 256, .tail = 64}, 33});
  expect_heads({{.weight = GetParam(), .heads = 5, .n = 130, .k = 512, .tail = 0}, 70});
}

INSTANTIATE_TEST_SUITE_P(Formats, HeadMatmulOf, testing::ValuesIn(computing_types()),
                         [](const auto& test) { return std::string(name(test.param)); });

/// Sizes of real models: keys of 128 and 192 elements, which are no multiples of 256.
TEST(HeadMatmul, TinyOfShortRows) {
  for (const DType type : {DType::f32, DType::f16, DType::q8_0}) {
    expect_heads({{.weight = type, .heads = 2, .n = 48, .k = 128, .tail = 64}, 3});
    expect_heads({{.weight = type, .heads = 2, .n = 16, .k = 192, .tail = 64}, 2});
  }
  expect_heads({{.weight = DType::f32, .heads = 4, .n = 32, .k = 10, .tail = 6}, 3});
}

/// Numbers of tokens around the size of a tile, sides that are no multiples of tile sizes, rows of x at odd addresses.
TEST(HeadMatmul, TinyOfManyTokensAndOddSides) {
  for (const std::int64_t tokens : {9, 16, 17, 32, 33, 64}) {
    expect_heads({{.weight = DType::q8_0, .heads = 2, .n = 80, .k = 192, .tail = 64}, tokens});
    expect_heads({{.weight = DType::f16, .heads = 1, .n = 67, .k = 77, .tail = 5}, tokens});
  }
  expect_heads({{.weight = DType::bf16, .heads = 3, .n = 1, .k = 200, .tail = 1}, 12});
  expect_heads({{.weight = DType::q5_0, .heads = 2, .n = 130, .k = 32, .tail = 0}, 40});
  expect_heads({{.weight = DType::f32, .heads = 2, .n = 35, .k = 77, .tail = 3}, 19});
}

/// A token with values outside of binary16's range does not change the bits of other tokens.
TEST(HeadMatmul, TinyOfLargeActivations) {
  HeadProblem problem{{.weight = DType::q8_0, .heads = 2, .n = 40, .k = 224, .tail = 8}, 20};
  const std::int64_t width = problem.spec.heads * (problem.spec.n + problem.spec.tail);
  HeadProblem large = problem;
  large.large_token = 13;
  const std::vector<float> expected = expected_of(large);
  harness().for_each_kernel<HeadMatmul>(problem.spec, [&](const HeadMatmulKernel& kernel) {
    const std::vector<float> plain = run_heads(kernel, problem);
    const std::vector<float> scaled = run_heads(kernel, large);
    for (std::int64_t t = 0; t < problem.tokens; ++t) {
      const auto row = [&](const std::vector<float>& from) {
        return std::span(from).subspan(static_cast<std::size_t>(t * width), static_cast<std::size_t>(width));
      };
      if (t == large.large_token) {
        EXPECT_LE(relative_error(row(scaled), row(expected)),
                  heads_tolerance(problem.spec.weight, kernel.device() != DeviceKind::cpu))
            << kernel.name();
      } else {
        EXPECT_TRUE(same_bits(row(plain), row(scaled))) << kernel.name() << ", token " << t;
      }
    }
  });
}

TEST(HeadMatmul, TinyATokenHasTheSameBitsInEveryCall) {
  for (const DType type : {DType::f32, DType::q8_0}) {
    const HeadMatmul::Spec spec{.weight = type, .heads = 3, .n = 40, .k = 128, .tail = 8};
    harness().for_each_kernel<HeadMatmul>(spec, [&](const HeadMatmulKernel& kernel) {
      const std::int64_t limit = std::min<std::int64_t>(kernel.few_tokens(), 11);
      const auto expect_same = [&](std::int64_t tokens, const std::vector<float>& all) {
        const std::vector<float> some = run_heads(kernel, {spec, tokens});
        EXPECT_TRUE(same_bits(some, std::span(all).first(some.size()))) << kernel.name() << ", " << tokens << " tokens";
      };
      const std::vector<float> few = run_heads(kernel, {spec, limit});
      for (const std::int64_t tokens : {1, 2, 6}) {
        expect_same(tokens, few);
      }
      const std::vector<float> many = run_heads(kernel, {spec, 37});
      for (const std::int64_t tokens : {limit + 1, std::int64_t{16}, std::int64_t{32}}) {
        expect_same(tokens, many);
      }
    });
  }
}

/// Sequences of these lengths, of which those with one token are wanted. Tokens before `untouched` are in groups and tiles
/// without wanted tokens.
void expect_single_rows(DType weight, const std::vector<std::int32_t>& lengths, std::int64_t untouched) {
  HeadProblem problem{{.weight = weight, .heads = 3, .n = 40, .k = 128, .tail = 8}};
  std::vector<std::int32_t> sequence_of;
  std::vector<std::int32_t> query_offsets = {0};
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    sequence_of.insert(sequence_of.end(), static_cast<std::size_t>(lengths[s]), static_cast<std::int32_t>(s));
    query_offsets.push_back(query_offsets.back() + lengths[s]);
  }
  problem.tokens = query_offsets.back();
  const HeadMatmul::Spec& spec = problem.spec;
  const std::vector<float> expected = expected_of(problem);
  const std::vector<std::byte> rows = problem.rows();
  const std::int64_t width = spec.heads * (spec.n + spec.tail);
  harness().for_each_kernel<HeadMatmul>(spec, [&](const HeadMatmulKernel& kernel) {
    if (kernel.packed_bytes(spec) > 0) {
      return;  // computes all rows, as the other tests see
    }
    Arena arena(harness().place_of(kernel));
    RaggedBatch batch;
    batch.num_sequences = static_cast<std::int32_t>(lengths.size());
    batch.num_tokens = static_cast<std::int32_t>(problem.tokens);
    batch.sequence_of = arena.in(sequence_of);
    batch.query_offsets = arena.in(query_offsets);
    auto* out = arena.in_out(std::vector<float>(static_cast<std::size_t>(problem.outputs()), -7.0f));
    const HeadMatmul::Args args{.x = arena.in(problem.x()),
                                .x_stride = problem.x_stride(),
                                .tokens = problem.tokens,
                                .weight = arena.in(rows),
                                .head_bytes = static_cast<std::int64_t>(rows.size()) / spec.heads,
                                .out = out,
                                .workspace = arena.workspace(kernel.workspace_bytes(spec, problem.tokens)),
                                .single_rows = &batch};
    arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
    const std::vector<float> all = arena.read(out, problem.outputs());
    for (std::int64_t t = 0; t < problem.tokens; ++t) {
      const auto row = [&](const std::vector<float>& from) {
        return std::span(from).subspan(static_cast<std::size_t>(t * width), static_cast<std::size_t>(width));
      };
      if (lengths[static_cast<std::size_t>(sequence_of[static_cast<std::size_t>(t)])] == 1) {
        EXPECT_LE(relative_error(row(all), row(expected)), heads_tolerance(weight, kernel.device() != DeviceKind::cpu))
            << kernel.name() << ", token " << t;
      } else if (t < untouched) {
        EXPECT_THAT(row(all), testing::Each(-7.0f)) << kernel.name() << " computes what nobody wants, token " << t;
      }
    }
  });
}

TEST(HeadMatmul, TinyOfSingleRowsAlone) {
  expect_single_rows(DType::f16, {5, 1, 2}, 4);
  expect_single_rows(DType::f16, {40, 1, 1, 7, 1}, 32);
  expect_single_rows(DType::f32, {13, 1, 2}, 12);
}

/// The error message of `call`.
template <class Call>
std::string complaint(Call&& call) {
  try {
    call();
  } catch (const LogicError& error) {
    return error.what();
  }
  return "no complaint";
}

TEST(HeadMatmul, TinyWrongArgumentsAreNamed) {
  const HeadMatmul::Spec spec{.weight = DType::f32, .heads = 2, .n = 8, .k = 16, .tail = 4};
  harness().for_each_kernel<HeadMatmul>(spec, [&](const HeadMatmulKernel& kernel) {
    const auto complaint_after = [&](const auto& change) {
      float memory[64] = {};
      HeadMatmul::Args args{
          .x = memory, .x_stride = 40, .tokens = 1, .weight = memory, .head_bytes = 512, .out = memory, .workspace = memory};
      change(args);
      return complaint([&] { kernel.run(spec, args, harness().place_of(kernel).context); });
    };
    EXPECT_THAT(complaint_after([](auto& args) { args.x = nullptr; }), testing::EndsWith("head_matmul: x is null"));
    EXPECT_THAT(complaint_after([](auto& args) { args.weight = nullptr; }),
                testing::EndsWith("head_matmul: weight is null"));
    EXPECT_THAT(complaint_after([](auto& args) { args.out = nullptr; }), testing::EndsWith("head_matmul: out is null"));
    EXPECT_THAT(complaint_after([](auto& args) { args.tokens = -1; }), testing::EndsWith("head_matmul: tokens is -1"));
    EXPECT_THAT(complaint_after([](auto& args) { args.x_stride = 39; }), testing::EndsWith("head_matmul: x_stride is 39"));
    EXPECT_THAT(complaint_after([](auto& args) { args.head_bytes = 0; }), testing::EndsWith("head_matmul: head_bytes is 0"));
  });
}

TEST(LatentSpecs, TinyWhatCannotBeIsRefusedWithTheReason) {
  const Attention::Spec plane = latent(heads(4, 1, 48), 32);
  for (const auto& kernel : harness().registry.all<Attention>()) {
    if (kernel->name() == "reference") {
      EXPECT_EQ(kernel->supports(latent(plane, 49), harness().host.device->info()).reason,
                "value_dim 49 is not within head_dim 48");
    }
    const std::string_view name = kernel->name();
    const bool reads_latents =
        name == "reference" || name == "check" || name.starts_with("latent") || kernel->device() == DeviceKind::cpu;
    if (!reads_latents && kernel->device() == harness().device.kind) {
      EXPECT_FALSE(kernel->supports(plane, harness().device).ok) << name;
    }
  }
  AppendCase c;
  LatentAppend::Spec append = c.spec();
  append.layout.value_dim = 0;
  const OpKernel<LatentAppend>& reference = *harness().registry.all<LatentAppend>()[0];
  EXPECT_EQ(reference.supports(append, harness().host.device->info()).reason,
            "a cache of 1 heads of 48 with values of 0 is not one latent plane of 16 turned elements");
  RopeAppend::Spec rope{.kind = RopeKind::adjacent, .q_heads = 1, .head_dim = 48, .n_rot = 16, .layout = c.spec().layout};
  for (const auto& kernel : harness().registry.all<RopeAppend>()) {
    EXPECT_FALSE(kernel->supports(rope, harness().device).ok) << kernel->name();
  }
}

}  // namespace
}  // namespace rocmforge::test::latent_test
