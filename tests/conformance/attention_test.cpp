#include <cmath>

#include "conformance/harness.h"

namespace rocmforge::test {
namespace {

struct Case {
  const char* name;
  Attention::Spec spec;
  std::vector<SequenceShape> shapes;
  std::int32_t block_tokens = 0;
};

Attention::Spec heads(std::int32_t q_heads, std::int32_t kv_heads, std::int32_t head_dim, DType dtype = DType::f16) {
  Attention::Spec spec;
  spec.q_heads = q_heads;
  spec.kv_heads = kv_heads;
  spec.head_dim = head_dim;
  spec.kv_dtype = dtype;
  return spec;
}

Attention::Spec options(Attention::Spec spec, std::int32_t window, float soft_cap, bool sinks, float scale = 0.0f) {
  spec.window = window;
  spec.soft_cap = soft_cap;
  spec.sinks = sinks;
  spec.scale = scale;
  return spec;
}

std::vector<Case> cases() {
  return {
      {"mha_32", heads(32, 32, 128), {{17, 17}, {129, 1}}},
      {"mha_40", heads(40, 40, 128), {{129, 16}}},
      {"gqa_32_8", heads(32, 8, 128), {{1, 1}, {16, 16}, {17, 17}, {129, 129}}},
      {"gqa_8_2", heads(8, 2, 64), {{257, 257}, {33, 7}}},
      {"mqa_32_1", heads(32, 1, 128), {{129, 129}}},
      {"mqa_71_1_wider_than_a_tile", heads(71, 1, 64), {{40, 3}, {130, 1}}},
      {"gqa_14_2_odd_group", heads(14, 2, 64), {{300, 1}, {65, 65}}},
      {"batch_of_4_decodes", heads(8, 2, 64), {{1, 1}, {64, 1}, {257, 1}, {500, 1}}},
      {"prefill_and_decode_mixed", heads(8, 4, 96), {{200, 1}, {70, 70}, {128, 1}, {256, 129}}},
      {"long_decode", heads(32, 4, 64), {{2048, 1}}},
      {"long_chunk", heads(8, 8, 64), {{2048, 16}}},
      {"odd_length_decode", heads(4, 4, 64), {{1, 1}, {2, 1}, {127, 1}, {128, 1}, {129, 1}, {255, 1}}},
      {"f32_cache", heads(8, 2, 80, DType::f32), {{150, 150}, {33, 1}}},
      {"bf16_cache", heads(8, 2, 128, DType::bf16), {{150, 150}, {33, 1}}},
      {"head_dim_72", heads(6, 2, 72), {{150, 20}, {33, 1}}},
      {"head_dim_8", heads(2, 1, 8, DType::f32), {{150, 150}}},
      {"head_dim_256", heads(4, 1, 256), {{140, 140}, {300, 1}}},
      {"blocks_of_16", heads(8, 2, 64), {{150, 150}, {33, 1}}, 16},
      {"blocks_of_64", heads(8, 2, 64), {{150, 150}, {65, 1}}, 64},
      {"blocks_of_512", heads(8, 2, 64), {{600, 10}, {65, 1}}, 512},
      {"window", options(heads(8, 2, 64), 50, 0.0f, false), {{300, 300}, {400, 1}}},
      {"window_of_1", options(heads(4, 2, 64), 1, 0.0f, false), {{140, 140}}},
      {"window_of_chunk_size", options(heads(4, 2, 64), 128, 0.0f, false), {{400, 300}}},
      {"soft_cap", options(heads(8, 2, 64), 0, 5.0f, false), {{300, 300}, {40, 1}}},
      {"sinks", options(heads(8, 2, 64), 0, 0.0f, true), {{300, 300}, {40, 1}}},
      {"everything", options(heads(16, 4, 128, DType::bf16), 100, 20.0f, true, 0.2f), {{300, 300}, {40, 1}, {290, 3}}},
  };
}

class AttentionConformance : public testing::TestWithParam<Case> {};

TEST_P(AttentionConformance, EqualsTheReference) {
  const Case& c = GetParam();
  const AttentionProblem problem(c.spec, c.shapes, 7);
  const std::vector<float> expected = problem.run(harness().reference<Attention>(c.spec), harness().context, c.block_tokens);
  harness().for_each_kernel<Attention>(c.spec, [&](const AttentionBackend& kernel) {
    const std::vector<float> actual = problem.run(kernel, harness().context, c.block_tokens);
    // K and V are rounded alike for both; on a processor everything else is float.
    EXPECT_LE(relative_error(actual, expected),
              tolerance(kernel.device() == DeviceKind::cpu ? DType::f32 : c.spec.kv_dtype));
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionConformance, testing::ValuesIn(cases()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(AttentionConformance, BlocksInAnyOrder) {
  const Attention::Spec spec = heads(8, 2, 64);
  const std::vector<SequenceShape> shapes = {{80, 80}};  // three blocks of 32, the last in part
  const AttentionProblem problem(spec, shapes, 11);
  const std::vector<float> expected = problem.run(harness().reference<Attention>(spec), harness().context);
  harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
    KvLayout layout = kernel.layout(spec);
    layout.block_tokens = 32;
    PagedCache cache(layout, {{2, 0, 1}});
    cache.write(problem.kv, 0, 0, 80);
    const auto actual = run_attention(kernel, spec, cache, shapes, problem.q, problem.sinks, harness().context);
    EXPECT_LE(relative_error(actual, expected), tolerance(DType::f32));
  });
}

TEST(AttentionConformance, ScoresInTheThousandsStayFiniteAndRight) {
  const Attention::Spec spec = heads(8, 2, 64, DType::f32);
  AttentionProblem problem(spec, {{200, 200}}, 3);
  for (std::size_t i = 0; i < problem.q.size(); ++i) {
    problem.q[i] = 100.0f * std::sin(0.37f * static_cast<float>(i % 1009));
  }
  for (std::size_t i = 0; i < problem.kv.k[0].size(); ++i) {
    problem.kv.k[0][i] = 100.0f * std::cos(0.73f * static_cast<float>(i % 2003));
    problem.kv.v[0][i] = 100.0f * std::sin(0.11f * static_cast<float>(i % 4001));
  }
  const std::vector<float> expected = problem.run(harness().reference<Attention>(spec), harness().context);
  harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
    // A score of 80,000 has a rounding error of 0.004 in float, and its weight the same relative error.
    EXPECT_LE(relative_error(problem.run(kernel, harness().context), expected), 1e-2);
  });
}

TEST(AttentionConformance, AnInfinitelyLargeSinkLeavesNothing) {
  const Attention::Spec spec = options(heads(4, 2, 64), 0, 0.0f, true);
  AttentionProblem problem(spec, {{50, 50}}, 5);
  problem.sinks.assign(problem.sinks.size(), 1e30f);
  harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
    for (const float value : problem.run(kernel, harness().context)) {
      ASSERT_EQ(value, 0.0f);
    }
  });
}

TEST(AttentionConformance, QueriesMayLieBetweenOtherData) {
  const Attention::Spec spec = heads(4, 2, 64);
  const AttentionProblem problem(spec, {{40, 5}, {33, 1}}, 13);
  const std::int64_t width = 4 * 64;
  const std::int64_t stride = width + 100;
  std::vector<float> spaced = poisoned(6 * stride);
  for (std::int64_t t = 0; t < 6; ++t) {
    std::copy_n(problem.q.begin() + t * width, width, spaced.begin() + t * stride);
  }
  harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
    PagedCache cache(kernel.layout(spec), kv_lengths(problem.shapes), 1);
    cache.write(problem.kv, 0, 0, 40);
    cache.write(problem.kv, 1, 0, 33);
    const BatchPlan batch = make_batch(problem.shapes, cache);
    PoisonedBytes workspace(kernel.workspace_bytes(spec, {.max_tokens = 6, .num_threads = 3}));
    std::vector<float> out = poisoned(6 * width);
    Attention::Args args;
    args.q = spaced.data();
    args.q_stride = stride;
    args.cache = cache.view();
    args.batch = batch.view();
    args.out = out.data();
    args.workspace = workspace.data();
    kernel.run(spec, cache.layout(), args, harness().context);
    EXPECT_TRUE(same_bits(out, problem.run(kernel, harness().context)));
  });
}

}  // namespace
}  // namespace rocmforge::test
