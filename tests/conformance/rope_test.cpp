#include <algorithm>
#include <cmath>

#include "checks/problem.h"
#include "conformance/attention_problem.h"

namespace rocmforge::test {
namespace {

struct Case {
  const char* name;
  RopeKind kind;
  std::int32_t q_heads;
  std::int32_t kv_heads;
  std::int32_t head_dim;
  std::int32_t n_rot;
  bool head_norm = false;
  KvTypes dtype = DType::f16;
  KvOrder k_order = KvOrder::dim_major;
  KvOrder v_order = KvOrder::token_major;
  std::int32_t block_tokens = 32;
  float magnitude = 1.0f;
  bool norm_after_turn = false;
  float temperature_scale = 0.0f;
  bool value_norm = false;
  bool append = true;
  std::int32_t temperature_ahead = 0;
};

constexpr KvTypes keys_rotated(KvTypes types) {
  types.k_rotated = true;
  return types;
}

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

RopeAppend::Spec spec_of(const Case& c) {
  return {.kind = c.kind,
          .q_heads = c.q_heads,
          .head_dim = c.head_dim,
          .n_rot = c.n_rot,
          .head_norm = c.head_norm,
          .norm_after_turn = c.norm_after_turn,
          .value_norm = c.value_norm,
          .append = c.append,
          .norm_eps = 1e-6f,
          .magnitude = c.magnitude,
          .temperature_scale = c.temperature_scale,
          .temperature_length = c.temperature_scale != 0.0f ? 7 : 0,
          .temperature_ahead = c.temperature_ahead,
          .layout = {.dtype = c.dtype,
                     .block_tokens = c.block_tokens,
                     .kv_heads = c.kv_heads,
                     .head_dim = c.head_dim,
                     .k_order = c.k_order,
                     .v_order = c.v_order}};
}

std::vector<float> inverse_frequencies(std::int32_t n_rot, double base = 10000.0) {
  std::vector<float> values;
  for (std::int32_t p = 0; p < n_rot / 2; ++p) {
    values.push_back(static_cast<float>(std::pow(base, -2.0 * p / n_rot)));
  }
  return values;
}

/// Q, K and V side by side in one row, as a fused product leaves them.
struct RopeRun {
  std::vector<float> rows;
  PagedCache cache;
};

/// Positions of their own for all tokens, on `axes` axes.
void scatter_positions(BatchPlan& plan, std::int32_t axes, Random& random) {
  plan.position_axes = axes;
  plan.positions.resize(static_cast<std::size_t>(plan.num_tokens()) * static_cast<std::size_t>(axes));
  std::ranges::generate(plan.positions, [&] { return random.below(5000); });
}

/// `axes`: 0 where the positions are the cells.
RopeRun run_rope(const OpKernel<RopeAppend>& kernel, const RopeAppend::Spec& spec, std::span<const SequenceShape> shapes,
                 std::int32_t padding = 0, std::int32_t axes = 0) {
  Random random(31);
  RopeRun run{{}, PagedCache(spec.layout, kv_lengths(shapes), 8)};
  BatchPlan plan = make_batch(shapes, run.cache);
  if (axes > 0) {
    scatter_positions(plan, axes, random);
  }
  const std::int64_t q_width = std::int64_t{spec.q_heads} * spec.head_dim;
  const std::int64_t kv_width = std::int64_t{spec.layout.kv_heads} * spec.head_dim;
  const std::int64_t stride = q_width + 2 * kv_width;
  const std::int64_t tokens = plan.num_tokens();
  run.rows = random.normals(tokens * stride, 2.0f);
  plan.add_padding(padding);
  plan.finish();
  const std::vector<float> q_norm = random.uniforms(spec.head_dim, 0.5f, 1.5f);
  const std::vector<float> k_norm = random.uniforms(spec.head_dim, 0.5f, 1.5f);
  std::vector<float> all = run.rows;
  all.resize(static_cast<std::size_t>(plan.num_tokens() * stride), 1.0f);

  Arena arena(harness().place_of(kernel));
  auto* rows = arena.in_out(all);
  auto* cache = arena.in_out(run.cache.bytes());
  RopeAppend::Args args;
  args.q = rows;
  args.k = spec.append ? rows + q_width : nullptr;
  args.v = spec.append ? rows + q_width + kv_width : nullptr;
  args.stride = stride;
  args.q_norm = spec.head_norm ? arena.in(q_norm) : nullptr;
  args.k_norm = spec.head_norm && spec.append ? arena.in(k_norm) : nullptr;
  args.inverse_frequency = spec.kind == RopeKind::none ? nullptr : arena.in(inverse_frequencies(spec.n_rot));
  args.cache = {cache, run.cache.view().num_blocks};
  args.batch = arena.batch(plan);
  std::vector<std::int32_t> axis_of(static_cast<std::size_t>(spec.n_rot / 2 + 1));
  for (std::size_t p = 0; p < axis_of.size(); ++p) {
    axis_of[p] = axes > 1 ? static_cast<std::int32_t>(p * 7 / 3) % axes : 0;
  }
  args.axes = arena.in(axis_of);
  arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
  run.rows = arena.read(rows, tokens * stride);
  run.cache.assign(arena.read(cache, static_cast<std::int64_t>(run.cache.bytes().size())));
  return run;
}

void expect_same_pages(const RopeRun& actual, const RopeRun& expected, const RopeAppend::Spec& spec,
                       std::span<const SequenceShape> shapes) {
  if (!spec.append) {
    EXPECT_EQ(actual.cache.written_elements(), 0) << "Q alone turns";
    return;
  }
  std::vector<float> k;
  std::vector<float> expected_k;
  std::vector<float> v;
  std::vector<float> expected_v;
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    for (std::int32_t position = shapes[s].kv_len - shapes[s].q_len; position < shapes[s].kv_len; ++position) {
      for (std::int32_t head = 0; head < spec.layout.kv_heads; ++head) {
        for (std::int32_t i = 0; i < spec.head_dim; ++i) {
          k.push_back(actual.cache.k(s, position, head, i));
          expected_k.push_back(expected.cache.k(s, position, head, i));
          v.push_back(actual.cache.v(s, position, head, i));
          expected_v.push_back(expected.cache.v(s, position, head, i));
          ASSERT_TRUE(spec.value_norm || spec.layout.dtype.v_rotated || v.back() == expected_v.back())
              << "sequence " << s << " position " << position << " head " << head << " dim " << i << " reads " << v.back()
              << " instead of " << expected_v.back();
        }
      }
    }
  }
  // Without a turn, and a factor, numbers are quantised as they are: to the same bits.
  const bool exact = spec.kind == RopeKind::none && !spec.head_norm && !spec.layout.dtype.k_rotated;
  EXPECT_LE(relative_error(k, expected_k), exact ? 0.0 : pages_tolerance(spec.layout.dtype));
  if (exact && !spec.value_norm && !spec.layout.dtype.v_rotated) {
    EXPECT_TRUE(std::ranges::equal(actual.cache.bytes(), expected.cache.bytes()));
  }
  EXPECT_LE(relative_error(v, expected_v), pages_tolerance(spec.layout.dtype));
  EXPECT_EQ(actual.cache.written_elements(), 2 * static_cast<std::int64_t>(k.size())) << "wrote outside the step's slots";
}

void expect_reference(const Case& c, std::span<const SequenceShape> shapes, std::int32_t axes = 0) {
  const RopeAppend::Spec spec = spec_of(c);
  const RopeRun expected = run_rope(harness().reference<RopeAppend>(spec), spec, shapes, 0, axes);
  harness().for_each_kernel<RopeAppend>(spec, [&](const OpKernel<RopeAppend>& kernel) {
    const RopeRun actual = run_rope(kernel, spec, shapes, harness().is_gpu() ? 3 : 0, axes);
    EXPECT_LE(relative_error(actual.rows, expected.rows), 1e-6);
    expect_same_pages(actual, expected, spec, shapes);
  });
}

class RopeConformance : public testing::TestWithParam<Case> {};

TEST_P(RopeConformance, EqualsTheReference) {
  expect_reference(GetParam(), std::vector<SequenceShape>{{70, 70}, {33, 1}, {64, 3}, {1000, 2}});
}

class RopeConformanceTiny : public testing::TestWithParam<Case> {};

TEST_P(RopeConformanceTiny, EqualsTheReference) {
  expect_reference(GetParam(), std::vector<SequenceShape>{{18, 18}, {33, 1}, {64, 3}});
}

TEST_P(RopeConformanceTiny, PositionsAreNotTheCells) {
  for (const std::int32_t axes : {1, 3}) {
    SCOPED_TRACE(axes);
    expect_reference(GetParam(), std::vector<SequenceShape>{{18, 18}, {33, 1}, {64, 3}}, axes);
  }
}

/// The cells that K goes to are those of the sequence, whatever the positions; equal positions on all axes turn as one does.
TEST(RopeConformance, TinyEqualAxesGiveTheBitsOfOne) {
  const RopeAppend::Spec spec = spec_of({"", RopeKind::half, 4, 2, 32, 32, true, DType::f32});
  const std::vector<SequenceShape> shapes{{18, 18}, {33, 1}};
  harness().for_each_kernel<RopeAppend>(spec, [&](const OpKernel<RopeAppend>& kernel) {
    PagedCache cache(spec.layout, kv_lengths(shapes), 8);
    std::vector<std::vector<float>> results;
    for (const std::int32_t axes : {1, 3}) {
      BatchPlan plan = make_batch(shapes, cache);
      plan.position_axes = axes;
      plan.positions.clear();
      for (std::int32_t t = 0; t < plan.num_tokens(); ++t) {
        plan.positions.insert(plan.positions.end(), static_cast<std::size_t>(axes), 100 + 3 * t);
      }
      Arena arena(harness().place_of(kernel));
      Random random(5);
      const std::int64_t stride = std::int64_t{8} * 32;
      float* rows = arena.in_out(random.normals(plan.num_tokens() * stride));
      auto* pages = arena.in_out(cache.bytes());
      const float* norm = arena.in(random.uniforms(32, 0.5f, 1.5f));
      const RopeAppend::Args args{
          .q = rows,
          .k = rows + 128,
          .v = rows + 192,
          .stride = stride,
          .q_norm = norm,
          .k_norm = norm,
          .inverse_frequency = arena.in(inverse_frequencies(32)),
          .cache = {pages, cache.view().num_blocks},
          .batch = arena.batch(plan),
          .axes = arena.in(std::vector<std::int32_t>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0})};
      arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
      std::vector<float>& result = results.emplace_back(arena.read(rows, plan.num_tokens() * stride));
      PagedCache written(spec.layout, kv_lengths(shapes), 8);
      written.assign(arena.read(pages, static_cast<std::int64_t>(cache.bytes().size())));
      for (std::int32_t dim = 0; dim < 32; ++dim) {
        result.push_back(written.k(1, 32, 1, dim));
        EXPECT_FALSE(std::isnan(result.back()));
      }
    }
    EXPECT_EQ(results[0], results[1]);
  });
}

constexpr auto by_token = KvOrder::token_major;
constexpr auto by_dim = KvOrder::dim_major;

std::string case_name(const testing::TestParamInfo<Case>& test) { return test.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Specs, RopeConformance,
    testing::Values(Case{"adjacent", RopeKind::adjacent, 8, 2, 64, 64}, Case{"half", RopeKind::half, 8, 2, 64, 64},
                    Case{"none", RopeKind::none, 8, 2, 64, 0}, Case{"partial_half", RopeKind::half, 4, 4, 80, 32},
                    Case{"partial_adjacent", RopeKind::adjacent, 4, 4, 96, 40},
                    Case{"head_norm", RopeKind::half, 8, 2, 128, 128, true, DType::bf16, by_dim, by_token, 16},
                    Case{"norm_without_rotation", RopeKind::none, 3, 1, 72, 0, true, DType::f32},
                    Case{"token_major", RopeKind::half, 4, 2, 64, 64, false, DType::f32, by_token, by_token, 64},
                    Case{"dim_major_values", RopeKind::half, 4, 2, 72, 72, false, DType::bf16, by_token, by_dim},
                    Case{"multi_query_odd_dims", RopeKind::adjacent, 5, 1, 20, 12, true},
                    Case{"magnitude", RopeKind::half, 4, 1, 256, 256, false, DType::f16, by_dim, by_dim, 128, 1.3f},
                    Case{"temperature", RopeKind::adjacent, 8, 2, 128, 128, false, DType::f16, by_dim, by_token, 32, 1.3f,
                         false, 0.1f},
                    Case{"q8_0", RopeKind::half, 8, 2, 128, 128, false, DType::q8_0},
                    Case{"q8_0_norm", RopeKind::adjacent, 6, 3, 96, 64, true, DType::q8_0, by_token, by_dim, 16},
                    Case{"q8_0_wide", RopeKind::half, 4, 1, 256, 256, true, DType::q8_0, by_token, by_token, 64},
                    Case{"q4_0_rotated", RopeKind::half, 8, 2, 128, 128, false, rotated(DType::q4_0)},
                    Case{"q4_1_norm", RopeKind::adjacent, 6, 3, 96, 64, true, DType::q4_1, by_token, by_dim, 16},
                    Case{"q5_0_wide", RopeKind::half, 4, 1, 256, 256, true, rotated(DType::q5_0), by_token, by_token, 64},
                    Case{"q8_0_and_q5_1", RopeKind::half, 4, 2, 64, 64, false, KvTypes(DType::q8_0, DType::q5_1)}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Specs, RopeConformanceTiny,
    testing::Values(
        Case{"adjacent", RopeKind::adjacent, 4, 2, 32, 32}, Case{"half", RopeKind::half, 4, 2, 32, 32},
        Case{"none", RopeKind::none, 4, 2, 32, 0},
        Case{"partial_half", RopeKind::half, 2, 2, 40, 16, false, DType::f32, by_token, by_token},
        Case{"partial_adjacent", RopeKind::adjacent, 2, 2, 48, 20, false, DType::f16, by_token, by_token},
        Case{"head_norm", RopeKind::half, 4, 1, 64, 64, true, DType::bf16, by_token, by_token, 16},
        Case{"magnitude", RopeKind::half, 2, 1, 128, 128, false, DType::f16, by_token, by_dim, 64, 1.3f},
        Case{"norm_after", RopeKind::half, 4, 1, 64, 64, true, DType::f32, by_token, by_dim, 16, 1.0f, true},
        Case{"norm_after_part", RopeKind::adjacent, 2, 2, 40, 16, true, DType::f16, by_dim, by_token, 16, 1.0f, true},
        Case{"temperature", RopeKind::adjacent, 2, 1, 32, 32, false, DType::f16, by_token, by_token, 32, 1.0f, false, 0.4f},
        Case{"temperature_ahead", RopeKind::none, 2, 1, 32, 0, false, DType::f16, by_token, by_token, 32, 1.0f, false, 0.4f,
             false, true, 1},
        Case{"temperature_q8_0", RopeKind::none, 2, 1, 64, 0, true, DType::q8_0, by_token, by_token, 32, 1.0f, false, 0.4f},
        Case{"value_norm", RopeKind::half, 4, 2, 32, 32, true, DType::f16, by_dim, by_token, 32, 1.0f, false, 0.0f, true},
        Case{"value_norm_alone", RopeKind::adjacent, 2, 2, 40, 16, false, DType::f32, by_token, by_dim, 16, 1.0f, false,
             0.0f, true},
        Case{"value_norm_q8_0", RopeKind::half, 2, 1, 64, 64, true, DType::q8_0, by_token, by_token, 32, 1.0f, false, 0.0f,
             true},
        Case{"queries_alone", RopeKind::half, 4, 2, 32, 32, true, DType::f16, by_dim, by_token, 32, 1.0f, false, 0.0f, false,
             false},
        Case{"head_dim_512", RopeKind::half, 2, 1, 512, 512, true, DType::f16, by_token, by_token, 32, 1.0f, false, 0.0f,
             true},
        Case{"q8_0", RopeKind::half, 2, 2, 96, 96, true, DType::q8_0, by_dim, by_token, 16},
        Case{"q4_0", RopeKind::none, 2, 2, 96, 0, false, DType::q4_0, by_dim, by_token, 16},
        Case{"q4_1", RopeKind::none, 2, 1, 64, 0, false, DType::q4_1, by_token, by_token, 64},
        Case{"q5_0", RopeKind::none, 2, 1, 32, 0, false, DType::q5_0, by_token, by_dim, 16},
        Case{"q5_1", RopeKind::none, 2, 1, 64, 0, false, DType::q5_1, by_token, by_token, 32},
        Case{"iq4_nl", RopeKind::none, 2, 1, 64, 0, false, DType::iq4_nl, by_token, by_token, 32},
        Case{"rotated", RopeKind::half, 4, 2, 96, 96, true, rotated(KvTypes(DType::f16, DType::q4_0)), by_token, by_token,
             64},
        Case{"keys_alone_rotated", RopeKind::half, 2, 2, 64, 64, false, keys_rotated(DType::q5_1), by_dim, by_token, 32,
             1.3f},
        Case{"q8_0_by_token", RopeKind::adjacent, 2, 1, 64, 40, false, DType::q8_0, by_token, by_token, 64}),
    case_name);

/// A head of ones at position p becomes cos a - sin a and sin a + cos a.
void expect_right_angle(const OpKernel<RopeAppend>& kernel, const RopeAppend::Spec& spec,
                        const std::vector<float>& frequencies, std::int32_t position) {
  const std::int32_t head_dim = spec.head_dim;
  std::vector<std::int32_t> table(static_cast<std::size_t>(position / 32 + 1), 0);
  PagedCache cache(spec.layout, {table});
  const SequenceShape shape{position + 1, 1};
  Arena arena(harness().place_of(kernel));
  auto* rows = arena.in_out(std::vector<float>(static_cast<std::size_t>(head_dim), 1.0f));
  const auto* kv = arena.in(std::vector<float>(static_cast<std::size_t>(head_dim), 1.0f));
  auto* pages = arena.in_out(cache.bytes());
  RopeAppend::Args args;
  args.q = rows;
  args.k = kv;
  args.v = kv;
  args.stride = head_dim;
  args.inverse_frequency = arena.in(frequencies);
  args.cache = {pages, 1};
  args.batch = arena.batch(make_batch({&shape, 1}, cache));
  arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
  const std::vector<float> q = arena.read(rows, head_dim);
  cache.assign(arena.read(pages, static_cast<std::int64_t>(cache.bytes().size())));
  for (std::int32_t p = 0; p < head_dim / 2; ++p) {
    const long double angle = static_cast<float>(position) * frequencies[static_cast<std::size_t>(p)];
    EXPECT_NEAR(q[static_cast<std::size_t>(p)], static_cast<double>(std::cos(angle) - std::sin(angle)), 1e-6);
    EXPECT_NEAR(q[static_cast<std::size_t>(p + head_dim / 2)], static_cast<double>(std::sin(angle) + std::cos(angle)), 1e-6);
    EXPECT_EQ(cache.k(0, position, 0, p), q[static_cast<std::size_t>(p)]);
  }
}

TEST(RopeConformance, TinyLargePositionsTurnByTheRightAngle) {
  const std::int32_t head_dim = 64;
  const std::vector<float> frequencies = inverse_frequencies(head_dim, 500000.0);
  const RopeAppend::Spec spec = spec_of({"", RopeKind::half, 1, 1, head_dim, head_dim, false, DType::f32});
  harness().for_each_kernel<RopeAppend>(spec, [&](const OpKernel<RopeAppend>& kernel) {
    for (const std::int32_t position : {0, 1, 3, 4095, 32767, 131071}) {
      SCOPED_TRACE(position);
      expect_right_angle(kernel, spec, frequencies, position);
    }
  });
}

}  // namespace
}  // namespace rocmforge::test
