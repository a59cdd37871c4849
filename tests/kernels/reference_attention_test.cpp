// The scalar attention that all others are compared with, checked against simple closed formulas.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/register_all.h"

namespace rocmforge {
namespace {

constexpr float masked = -std::numeric_limits<float>::infinity();

/// One dense sequence of one head and two dimensions; query i is (1, i), key j is (j, 1), and value j is (j, j * j).
class ReferenceAttention : public testing::Test {
 protected:
  ReferenceAttention() { register_all_kernels(registry_); }

  std::vector<float> run(Attention::Spec spec, std::int32_t q_len, std::int32_t kv_len,
                         const std::vector<float>& mask = {}) {
    spec.q_heads = 1;
    spec.kv_heads = 1;
    spec.head_dim = 2;
    spec.kv_dtype = DType::f32;
    spec.mask = !mask.empty();
    std::vector<float> q;
    std::vector<float> k;
    std::vector<float> v;
    for (std::int32_t i = 0; i < q_len; ++i) {
      q.insert(q.end(), {1.0f, static_cast<float>(i)});
    }
    for (std::int32_t j = 0; j < kv_len; ++j) {
      k.insert(k.end(), {static_cast<float>(j), 1.0f});
      v.insert(v.end(), {static_cast<float>(j), static_cast<float>(j * j)});
    }
    k.resize(k.size() + 2);  // not null without keys either
    v.resize(v.size() + 2);
    const std::vector<std::int32_t> offsets = {0, q_len};
    std::vector<float> out(q.size(), 77.0f);
    Attention::Args args;
    args.q = q.data();
    args.q_stride = 2;
    args.dense = {k.data(), v.data(), 2 * kv_len, 2, 2};
    args.batch.num_sequences = 1;
    args.batch.num_tokens = q_len;
    args.batch.query_offsets = offsets.data();
    args.batch.kv_lengths = &kv_len;
    args.batch.max_q_len = q_len;
    args.batch.max_kv_len = kv_len;
    args.mask = mask.data();
    args.mask_stride = kv_len;
    args.sinks = &sink_;
    args.out = out.data();
    args.rows = rows_;
    const AttentionBackend& kernel = *registry_.choose<Attention>(spec, cpu_device_info(), "reference").kernel;
    ExecutionContext context;
    kernel.run(spec, kernel.layout(spec), args, context);
    return out;
  }

  /// The mean key and mean square of the keys [begin, end) under softmax(scores).
  template <class Score>
  static std::vector<float> expected(std::int32_t begin, std::int32_t end, const Score& score, double extra = 0.0) {
    double total = extra;
    double first = 0.0;
    double second = 0.0;
    for (std::int32_t j = begin; j < end; ++j) {
      const double weight = std::exp(score(j));
      total += weight;
      first += weight * j;
      second += weight * j * j;
    }
    return {static_cast<float>(first / total), static_cast<float>(second / total)};
  }

  static void expect_row(const std::vector<float>& out, std::int32_t row, const std::vector<float>& values) {
    EXPECT_FLOAT_EQ(out[static_cast<std::size_t>(2 * row)], values[0]) << "row " << row;
    EXPECT_FLOAT_EQ(out[static_cast<std::size_t>(2 * row + 1)], values[1]) << "row " << row;
  }

  KernelRegistry registry_;
  float sink_ = 0.5f;
  Attention::Rows rows_ = Attention::Rows::all;
};

TEST_F(ReferenceAttention, CausalRowsEndAtTheirPosition) {
  const std::vector<float> out = run({.scale = 0.5f}, 2, 5);
  for (std::int32_t i = 0; i < 2; ++i) {
    expect_row(out, i, expected(0, 4 + i, [&](int j) { return 0.5 * (j + i); }));
  }
}

TEST_F(ReferenceAttention, FullRowsSeeEveryKeyAndTheDefaultScaleIsOneOverTheRootOfHeadDim) {
  const std::vector<float> out = run({.causal = false}, 2, 5);
  for (std::int32_t i = 0; i < 2; ++i) {
    expect_row(out, i, expected(0, 5, [&](int j) { return (j + i) / std::sqrt(2.0); }));
  }
}

TEST_F(ReferenceAttention, AWindowOfFullRowsReachesToBothSides) {
  const std::vector<float> out = run({.scale = 0.5f, .window = 2, .causal = false}, 5, 5);
  for (std::int32_t i = 0; i < 5; ++i) {
    expect_row(out, i, expected(std::max(0, i - 1), std::min(5, i + 2), [&](int j) { return 0.5 * (j + i); }));
  }
}

TEST_F(ReferenceAttention, CausalRowsBeforeTheFirstKeyAreZeros) {
  const std::vector<float> out = run({.scale = 0.5f}, 5, 2);
  for (std::int32_t i = 0; i < 3; ++i) {
    expect_row(out, i, {0.0f, 0.0f});
  }
  expect_row(out, 3, {0.0f, 0.0f});  // sees only key 0, whose value is (0, 0)
  expect_row(out, 4, expected(0, 2, [](int j) { return 0.5 * (j + 4); }));
}

TEST_F(ReferenceAttention, WindowSoftCapAndSinks) {
  const std::vector<float> out = run({.scale = 0.5f, .window = 2, .soft_cap = 1.5f, .sinks = true}, 2, 5);
  for (std::int32_t i = 0; i < 2; ++i) {
    const auto score = [&](int j) { return 1.5 * std::tanh(0.5 * (j + i) / 1.5); };
    expect_row(out, i, expected(2 + i, 4 + i, score, std::exp(0.5)));
  }
}

TEST_F(ReferenceAttention, TheMaskIsAddedAndFullyMaskedRowsAreZeros) {
  const std::vector<float> out =
      run({.scale = 0.5f, .causal = false}, 3, 3, {0.0f, -1.0f, 2.0f, masked, masked, masked, masked, 0.0f, masked});
  const double mask[] = {0.0, -1.0, 2.0};
  expect_row(out, 0, expected(0, 3, [&](int j) { return 0.5 * j + mask[j]; }));
  expect_row(out, 1, {0.0f, 0.0f});
  expect_row(out, 2, {1.0f, 1.0f});
}

TEST_F(ReferenceAttention, RowsOfOtherSequencesAreLeftAlone) {
  rows_ = Attention::Rows::single;
  EXPECT_EQ(run({.scale = 0.5f}, 2, 5), std::vector<float>(4, 77.0f));
  rows_ = Attention::Rows::several;
  EXPECT_EQ(run({.scale = 0.5f}, 1, 5), std::vector<float>(2, 77.0f));
  EXPECT_NE(run({.scale = 0.5f}, 2, 5), std::vector<float>(4, 77.0f));
}

TEST_F(ReferenceAttention, SequencesWithoutKeysGiveZeros) {
  EXPECT_EQ(run({.scale = 0.5f}, 1, 0), std::vector<float>(2, 0.0f));
  EXPECT_EQ(run({.scale = 0.5f, .sinks = true, .causal = false}, 1, 0), std::vector<float>(2, 0.0f));
}

TEST(CpuAttentionSupport, RefusesWhatItDoesNotDo) {
  KernelRegistry registry;
  register_all_kernels(registry);
  const Attention::Spec plain{.q_heads = 4, .kv_heads = 2, .head_dim = 64};
  const auto refusal = [&](Attention::Spec spec) {
    try {
      static_cast<void>(registry.choose<Attention>(spec, cpu_device_info(), "cpu"));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(plain), "");
  Attention::Spec mask = plain;
  mask.mask = true;
  EXPECT_NE(refusal(mask).find("no additive mask"), std::string::npos) << refusal(mask);
  Attention::Spec full = plain;
  full.causal = false;
  EXPECT_EQ(refusal(full), "");
  Attention::Spec f16 = plain;
  f16.io_dtype = DType::f16;
  EXPECT_NE(refusal(f16).find("queries and output of type F16"), std::string::npos) << refusal(f16);
}

}  // namespace
}  // namespace rocmforge
