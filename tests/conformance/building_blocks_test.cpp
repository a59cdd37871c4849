// Expected values come from the formulas, written out here: the operations are as simple as their definitions, and so the
// reference is tested along with the kernels of the device.

#include <algorithm>
#include <cmath>
#include <limits>

#include "conformance/harness.h"
#include "tensor/quant/dequantize.h"

namespace rocmforge::test {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// Calls run(kernel, arena, context) for every kernel, and for the reference on the CPU.
template <class Op, class Run>
void for_each(const typename Op::Spec& spec, const Run& run) {
  harness().for_each_kernel_or_reference<Op>(spec, [&](const OpKernel<Op>& kernel) {
    Arena arena(harness().place_of(kernel));
    run(kernel, arena);
  });
}

template <class Op>
void call(const OpKernel<Op>& kernel, Arena& arena, const typename Op::Spec& spec, const typename Op::Args& args) {
  arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
}

void expect_residual_add(std::int64_t count) {
  Random random(at(count));
  const std::vector<float> a = random.normals(count);
  const std::vector<float> b = random.normals(count);
  std::vector<float> sum = a;
  std::transform(a.begin(), a.end(), b.begin(), sum.begin(), std::plus<>());
  for_each<ResidualAdd>({}, [&](const auto& kernel, Arena& arena) {
    float* x = arena.in_out(a);
    float* out = arena.out<float>(count);
    const float* other = arena.in(b);
    call<ResidualAdd>(kernel, arena, {}, {x, other, count, out});
    EXPECT_TRUE(same_bits(arena.read(out, count), sum));
    call<ResidualAdd>(kernel, arena, {}, {x, other, count, x});
    EXPECT_TRUE(same_bits(arena.read(x, count), sum)) << "in place";
  });
}

TEST(BuildingBlocks, TinyResidualAdd) {
  for (const std::int64_t count : {1, 63, 257, 1000}) {
    expect_residual_add(count);
  }
}

TEST(BuildingBlocks, ResidualAddOfMillions) { expect_residual_add(3'000'001); }

TEST(BuildingBlocks, TinyScale) {
  for (const std::int64_t count : {1, 63, 257, 1000}) {
    Random random(at(count));
    const std::vector<float> x = random.normals(count);
    std::vector<float> scaled = x;
    std::ranges::for_each(scaled, [](float& value) { value *= 0.3f; });
    for_each<Scale>({}, [&](const auto& kernel, Arena& arena) {
      float* data = arena.in_out(x);
      call<Scale>(kernel, arena, {}, {data, count, 0.3f});
      EXPECT_TRUE(same_bits(arena.read(data, count), scaled));
    });
  }
}

void expect_causal_mask(std::int64_t matrices, std::int32_t q_len, std::int32_t kv_len, std::int32_t window) {
  SCOPED_TRACE(testing::Message() << matrices << " x " << q_len << " x " << kv_len << ", window " << window);
  Random random(9);
  const std::vector<float> scores = random.normals(matrices * q_len * kv_len);
  std::vector<float> expected = scores;
  for (std::int64_t i = 0; i < std::int64_t(scores.size()); ++i) {
    const std::int64_t key = i % kv_len;
    const std::int64_t position = kv_len - q_len + i / kv_len % q_len;
    if (key > position || (window > 0 && key <= position - window)) {
      expected[at(i)] = minus_infinity;
    }
  }
  for_each<CausalMask>({}, [&](const auto& kernel, Arena& arena) {
    float* data = arena.in_out(scores);
    call<CausalMask>(kernel, arena, {}, {data, matrices, q_len, kv_len, window});
    EXPECT_TRUE(same_bits(arena.read(data, std::int64_t(scores.size())), expected));
  });
}

TEST(BuildingBlocks, TinyCausalMask) {
  expect_causal_mask(3, 17, 17, 0);
  expect_causal_mask(2, 5, 40, 0);
  expect_causal_mask(2, 9, 5, 0);
  expect_causal_mask(2, 20, 33, 7);
  expect_causal_mask(1, 1, 1, 0);
}

TEST(BuildingBlocks, CausalMask) {
  expect_causal_mask(32, 129, 257, 0);
  expect_causal_mask(1, 1, 70000, 100);
  expect_causal_mask(70000, 2, 3, 0);
}

void expect_softmax(std::int64_t rows, std::int64_t cols, float deviation) {
  SCOPED_TRACE(testing::Message() << rows << " x " << cols);
  Random random(at(cols));
  std::vector<float> x = random.normals(rows * cols, deviation);
  for (std::int64_t i = 0; i < rows * cols; i += 5) {
    x[at(i)] = minus_infinity;
  }
  std::fill_n(x.begin() + (rows - 1) * cols, cols, minus_infinity);
  std::vector<float> expected(x.size(), 0.0f);
  for (std::int64_t r = 0; r + 1 < rows; ++r) {
    const auto row = std::span(x).subspan(at(r * cols), at(cols));
    const double largest = double{*std::ranges::max_element(row)};
    double total = 0.0;
    for (const float value : row) {
      total += std::isinf(largest) ? 0.0 : std::exp(double{value} - largest);
    }
    for (std::int64_t c = 0; c < cols && total > 0.0; ++c) {
      expected[at(r * cols + c)] = static_cast<float>(std::exp(double{row[at(c)]} - largest) / total);
    }
  }
  for_each<RowSoftmax>({}, [&](const auto& kernel, Arena& arena) {
    float* data = arena.in_out(x);
    call<RowSoftmax>(kernel, arena, {}, {data, rows, cols});
    const std::vector<float> out = arena.read(data, rows * cols);
    EXPECT_LE(relative_error(out, expected), 1e-5);
    EXPECT_TRUE(std::all_of(out.end() - cols, out.end(), [](float value) { return value == 0.0f; })) << "a masked row";
    for (std::int64_t i = 0; i < rows * cols; i += 5) {
      ASSERT_EQ(out[at(i)], 0.0f) << "a masked column";
    }
  });
}

TEST(BuildingBlocks, TinyRowSoftmax) {
  for (const std::int64_t cols : {1, 2, 33, 64, 65, 257}) {
    expect_softmax(4, cols, 3.0f);
  }
  expect_softmax(3, 100, 1000.0f);
}

TEST(BuildingBlocks, RowSoftmax) {
  for (const std::int64_t cols : {31, 127, 1024, 1025, 5000, 40000}) {
    expect_softmax(9, cols, 3.0f);
  }
  expect_softmax(70000, 3, 3.0f);
}

struct Shape3 {
  std::int32_t batch, q_len, kv_len, heads, head_dim;
};

void expect_query_key(const Shape3& s) {
  Random random(14);
  const std::vector<float> q = random.normals(std::int64_t{s.batch} * s.q_len * s.heads * s.head_dim);
  const std::vector<float> k = random.normals(std::int64_t{s.batch} * s.kv_len * s.heads * s.head_dim);
  std::vector<float> expected;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t i = 0; i < s.q_len; ++i) {
        for (std::int64_t j = 0; j < s.kv_len; ++j) {
          double sum = 0.0;
          for (std::int64_t d = 0; d < s.head_dim; ++d) {
            sum += double{q[at(((b * s.q_len + i) * s.heads + h) * s.head_dim + d)]} *
                   double{k[at(((b * s.kv_len + j) * s.heads + h) * s.head_dim + d)]};
          }
          expected.push_back(static_cast<float>(0.125 * sum));
        }
      }
    }
  }
  const QueryKey::Spec spec{s.heads, s.head_dim};
  for_each<QueryKey>(spec, [&](const auto& kernel, Arena& arena) {
    float* scores = arena.out<float>(std::int64_t(expected.size()));
    call<QueryKey>(kernel, arena, spec, {arena.in(q), arena.in(k), s.batch, s.q_len, s.kv_len, 0.125f, scores});
    EXPECT_LE(relative_error(arena.read(scores, std::int64_t(expected.size())), expected), tolerance(DType::f32));
  });
}

void expect_weights_value(const Shape3& s) {
  Random random(15);
  const std::vector<float> weights = random.uniforms(std::int64_t{s.batch} * s.heads * s.q_len * s.kv_len, 0.0f, 1.0f);
  const std::vector<float> v = random.normals(std::int64_t{s.batch} * s.kv_len * s.heads * s.head_dim);
  std::vector<float> expected;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t i = 0; i < s.q_len; ++i) {
      for (std::int64_t h = 0; h < s.heads; ++h) {
        for (std::int64_t d = 0; d < s.head_dim; ++d) {
          double sum = 0.0;
          for (std::int64_t j = 0; j < s.kv_len; ++j) {
            sum += double{weights[at(((b * s.heads + h) * s.q_len + i) * s.kv_len + j)]} *
                   double{v[at(((b * s.kv_len + j) * s.heads + h) * s.head_dim + d)]};
          }
          expected.push_back(static_cast<float>(sum));
        }
      }
    }
  }
  const WeightsValue::Spec spec{s.heads, s.head_dim};
  for_each<WeightsValue>(spec, [&](const auto& kernel, Arena& arena) {
    float* out = arena.out<float>(std::int64_t(expected.size()));
    call<WeightsValue>(kernel, arena, spec, {arena.in(weights), arena.in(v), s.batch, s.q_len, s.kv_len, out});
    EXPECT_LE(relative_error(arena.read(out, std::int64_t(expected.size())), expected), tolerance(DType::f32));
  });
}

TEST(BuildingBlocks, TinyScoresAndSums) {
  for (const Shape3& shape :
       {Shape3{1, 1, 1, 1, 16}, Shape3{2, 5, 17, 2, 40}, Shape3{1, 17, 5, 3, 64}, Shape3{1, 3, 33, 2, 13}}) {
    expect_query_key(shape);
    expect_weights_value(shape);
  }
}

TEST(BuildingBlocks, ScoresAndSums) {
  for (const Shape3& shape : {Shape3{4, 33, 129, 8, 128}, Shape3{1, 1, 3000, 4, 96}, Shape3{2, 70, 70, 5, 256}}) {
    expect_query_key(shape);
    expect_weights_value(shape);
  }
}

void expect_replicate(std::int32_t q_heads, std::int32_t kv_heads, std::int32_t head_dim, std::int64_t tokens) {
  const ReplicateKv::Spec spec{q_heads, kv_heads, head_dim};
  Random random(16);
  const std::vector<float> k = random.normals(tokens * kv_heads * head_dim);
  const std::vector<float> v = random.normals(tokens * kv_heads * head_dim);
  const auto replicated = [&](const std::vector<float>& from) {
    std::vector<float> to;
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int32_t h = 0; h < q_heads; ++h) {
        const auto head = from.begin() + (t * kv_heads + h / (q_heads / kv_heads)) * head_dim;
        to.insert(to.end(), head, head + head_dim);
      }
    }
    return to;
  };
  for_each<ReplicateKv>(spec, [&](const auto& kernel, Arena& arena) {
    const std::int64_t count = tokens * q_heads * head_dim;
    float* k_out = arena.out<float>(count);
    float* v_out = arena.out<float>(count);
    call<ReplicateKv>(kernel, arena, spec, {arena.in(k), arena.in(v), tokens, k_out, v_out});
    EXPECT_TRUE(same_bits(arena.read(k_out, count), replicated(k)));
    EXPECT_TRUE(same_bits(arena.read(v_out, count), replicated(v)));
  });
}

TEST(BuildingBlocks, TinyReplicateKv) {
  expect_replicate(8, 2, 16, 5);
  expect_replicate(4, 1, 13, 3);
  expect_replicate(2, 2, 64, 2);
}

TEST(BuildingBlocks, ReplicateKv) { expect_replicate(32, 8, 128, 300); }

class DequantizeConformanceTiny : public testing::TestWithParam<DType> {};

TEST_P(DequantizeConformanceTiny, EqualsTheHostBitForBit) {
  const Dequantize::Spec spec{GetParam()};
  for (const std::int64_t count : {256, 1280}) {
    Random random(at(count));
    const auto rows = random_rows(spec.dtype, 1, count, random);
    std::vector<float> expected(at(count));
    dequantize_row(spec.dtype, rows.data(), expected.data(), count);
    for_each<Dequantize>(spec, [&](const auto& kernel, Arena& arena) {
      float* out = arena.out<float>(count);
      call<Dequantize>(kernel, arena, spec, {arena.in(rows), count, out});
      EXPECT_TRUE(same_bits(arena.read(out, count), expected));
    });
  }
}

/// Every bit pattern a block may hold, infinite and denormal scales included: the same bits, or NaN for NaN.
TEST_P(DequantizeConformanceTiny, AnyBits) {
  const Dequantize::Spec spec{GetParam()};
  constexpr std::int64_t count = 2048;
  Random random(4);
  std::vector<std::byte> rows(row_bytes(spec.dtype, count));
  std::ranges::generate(rows, [&] { return static_cast<std::byte>(random.bits()); });
  std::vector<float> expected(count);
  dequantize_row(spec.dtype, rows.data(), expected.data(), count);
  for_each<Dequantize>(spec, [&](const auto& kernel, Arena& arena) {
    float* out = arena.out<float>(count);
    call<Dequantize>(kernel, arena, spec, {arena.in(rows), count, out});
    const std::vector<float> actual = arena.read(out, count);
    for (std::size_t i = 0; i < at(count); ++i) {
      ASSERT_TRUE(std::isnan(expected[i]) ? std::isnan(actual[i]) : actual[i] == expected[i])
          << "element " << i << ": " << actual[i] << " in place of " << expected[i];
    }
  });
}

TEST_P(DequantizeConformanceTiny, FusedWithRmsNorm) {
  for (const std::int64_t dim : {256, 1536}) {
    const DequantizeRmsNorm::Spec spec{GetParam(), dim, 1e-5f};
    constexpr std::int64_t num_rows = 3;
    Random random(at(dim));
    const auto rows = random_rows(spec.dtype, num_rows, dim, random);
    const std::vector<float> weight = random.uniforms(dim, 0.5f, 1.5f);
    std::vector<float> expected(at(num_rows * dim));
    for (std::int64_t r = 0; r < num_rows; ++r) {
      float* row = expected.data() + r * dim;
      dequantize_row(spec.dtype, rows.data() + at(r) * row_bytes(spec.dtype, dim), row, dim);
      double squares = 0.0;
      for (std::int64_t i = 0; i < dim; ++i) {
        squares += double{row[i]} * double{row[i]};
      }
      const double scale = 1.0 / std::sqrt(squares / static_cast<double>(dim) + 1e-5);
      for (std::int64_t i = 0; i < dim; ++i) {
        row[i] = static_cast<float>(double{row[i]} * scale * double{weight[at(i)]});
      }
    }
    for_each<DequantizeRmsNorm>(spec, [&](const auto& kernel, Arena& arena) {
      float* out = arena.out<float>(num_rows * dim);
      call<DequantizeRmsNorm>(kernel, arena, spec, {arena.in(rows), num_rows, arena.in(weight), out});
      EXPECT_LE(relative_error(arena.read(out, num_rows * dim), expected), 1e-6);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, DequantizeConformanceTiny, testing::ValuesIn(computing_types()),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST(BuildingBlocks, TinyGatherRows) {
  for (const std::int64_t dim : {1, 33, 256}) {
    const GatherRows::Spec spec{dim};
    Random random(at(dim));
    const std::vector<float> x = random.normals(9 * dim);
    const std::vector<std::int32_t> ids = {8, 0, 0, 5, 7};
    std::vector<float> expected;
    for (const std::int32_t id : ids) {
      expected.insert(expected.end(), x.begin() + id * dim, x.begin() + (id + 1) * dim);
    }
    for_each<GatherRows>(spec, [&](const auto& kernel, Arena& arena) {
      float* out = arena.out<float>(5 * dim);
      call<GatherRows>(kernel, arena, spec, {arena.in(x), arena.in(ids), 5, out});
      EXPECT_TRUE(same_bits(arena.read(out, 5 * dim), expected));
    });
  }
}

}  // namespace
}  // namespace rocmforge::test
