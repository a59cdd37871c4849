// Expected values come from the formulas, written out here: the operations are as simple as their definitions, and so the
// reference is tested along with the kernels of the device.

#include <algorithm>
#include <cmath>

#include "conformance/harness.h"
#include "tensor/quant/dequantize.h"

namespace rocmforge::test::building_blocks_test {
namespace {

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

TEST(BuildingBlocks, TinyResidualAddWithAFactor) {
  const std::vector<float> a = {1.0f, -2.0f, 0.5f, 8.0f, 3.0f};
  const std::vector<float> b = {4.0f, 2.0f, -8.0f, 1.0f, 0.0f};
  for_each<ResidualAdd>({}, [&](const auto& kernel, Arena& arena) {
    float* x = arena.in_out(a);
    call<ResidualAdd>(kernel, arena, {}, {x, arena.in(b), 5, x, 0.25f});
    EXPECT_TRUE(same_bits(arena.read(x, 5), std::vector<float>{2.0f, -1.5f, -1.5f, 8.25f, 3.0f}));
    call<ResidualAdd>(kernel, arena, {}, {x, arena.in(b), 5, x, 0.25f, 2.0f});
    EXPECT_TRUE(same_bits(arena.read(x, 5), std::vector<float>{6.0f, -2.0f, -7.0f, 17.0f, 6.0f}));
  });
}

TEST(BuildingBlocks, ResidualAddOfMillions) { expect_residual_add(3'000'001); }

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

/// The named rows change, in any order, and no others.
TEST(BuildingBlocks, TinyOverwriteRows) {
  for (const bool add : {false, true}) {
    for (const std::int64_t dim : {1, 33, 256}) {
      for (const std::int64_t stride : {dim, dim + 3, 2 * dim}) {
        const OverwriteRows::Spec spec{dim};
        Random random(at(dim));
        const std::vector<float> x = random.normals(6 * stride);
        const std::vector<float> before = random.normals(9 * dim);
        const std::vector<std::int32_t> from = {5, 0, 0, 2};
        const std::vector<std::int32_t> ids = {3, 8, 0, 4};
        std::vector<float> expected = before;
        for (std::size_t i = 0; i < ids.size(); ++i) {
          for (std::int64_t e = 0; e < dim; ++e) {
            float& to = expected[static_cast<std::size_t>(ids[i] * dim + e)];
            to = (add ? to : 0.0f) + x[static_cast<std::size_t>(from[i] * stride + e)];
          }
        }
        for_each<OverwriteRows>(spec, [&](const auto& kernel, Arena& arena) {
          float* out = arena.in_out(before);
          call<OverwriteRows>(kernel, arena, spec, {arena.in(x), stride, arena.in(from), arena.in(ids), 4, out, add});
          EXPECT_TRUE(same_bits(arena.read(out, 9 * dim), expected));
        });
      }
    }
  }
}

/// Parts of different sizes, so that another order of the sum gives other bits.
TEST(BuildingBlocks, TinyAllReduceAddsTheRanksInTheirOrder) {
  for (const std::int32_t ranks : {1, 2, 3, 4, AllReduce::most_ranks}) {
    for (const std::int64_t count : {1, 7, 1025, 20000}) {
      const AllReduce::Spec spec{ranks};
      Random random(at(count));
      std::vector<std::vector<float>> parts;
      const std::vector<float> before = random.normals(count);
      std::vector<double> expected(before.begin(), before.end());
      for (std::int32_t rank = 0; rank < ranks; ++rank) {
        parts.push_back(random.normals(count, std::pow(4.0f, static_cast<float>(rank % 3))));
        std::transform(expected.begin(), expected.end(), parts.back().begin(), expected.begin(), std::plus<>());
      }
      for_each<AllReduce>(spec, [&](const auto& kernel, Arena& arena) {
        AllReduce::Args args{.count = count, .out = arena.in_out(before), .add = true};
        std::transform(parts.begin(), parts.end(), args.parts.begin(), [&](const auto& part) { return arena.in(part); });
        call<AllReduce>(kernel, arena, spec, args);
        const std::vector<float> added = arena.read(args.out, count);
        args.add = false;
        args.out = arena.out<float>(count);
        call<AllReduce>(kernel, arena, spec, args);
        const std::vector<float> sum = arena.read(args.out, count);
        for (std::int64_t i = 0; i < count; ++i) {
          float in_order = 0.0f;
          std::for_each(parts.begin(), parts.end(), [&](const auto& part) { in_order += part[at(i)]; });
          EXPECT_NEAR(added[at(i)], expected[at(i)], 1e-4);
          EXPECT_NEAR(sum[at(i)], expected[at(i)] - double{before[at(i)]}, 1e-4);
          if (kernel.priority() != KernelPriority::reference) {
            EXPECT_EQ(sum[at(i)], in_order);
          }
        }
      });
    }
  }
}

}  // namespace
}  // namespace rocmforge::test::building_blocks_test
