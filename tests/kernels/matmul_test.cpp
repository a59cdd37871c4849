#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>

#include "kernels/matmul_data.h"

namespace rocmforge::matmul_test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

struct Case {
  std::int64_t k;
  std::int64_t n;
  std::int64_t tokens;
};

/// Every edge of the tiles: one row, one token, groups of 16 rows and of a few tokens not full, short last panels, more
/// tokens than share an unpacked panel. Formats with blocks of 256 elements take k times 8, those of 64 times 2.
std::vector<Case> cases_of(DType type) {
  if (info(type).block_elems == 256) {
    return {{256, 1, 1},    {256, 5, 2},    {512, 16, 3},   {512, 17, 7},  {768, 64, 8},  {2048, 33, 16},
            {512, 1000, 5}, {2048, 40, 33}, {256, 48, 128}, {2048, 17, 1}, {512, 40, 300}};
  }
  if (info(type).block_elems == 64) {
    return {{64, 1, 1},     {64, 5, 2},     {128, 16, 3},   {256, 17, 7}, {512, 64, 8},  {896, 33, 16},
            {128, 1000, 5}, {2048, 40, 33}, {320, 48, 128}, {896, 17, 1}, {576, 40, 300}};
  }
  return {{32, 1, 1},    {32, 5, 2},     {64, 16, 3},    {256, 17, 7}, {512, 64, 8},  {896, 33, 16},
          {64, 1000, 5}, {2048, 40, 33}, {288, 48, 128}, {896, 17, 1}, {544, 40, 300}};
}

class MatmulFormat : public testing::TestWithParam<DType> {
 protected:
  ThreadPool pool{2};
  ExecutionContext context{&pool};
  std::vector<std::unique_ptr<MatmulKernel>> kernels = runnable_kernels(GetParam());
};

std::string format_name(const testing::TestParamInfo<DType>& param) { return std::string(name(param.param)); }

INSTANTIATE_TEST_SUITE_P(All, MatmulFormat, testing::ValuesIn(all_formats), format_name);

/// The formats that have codes.
class MatmulCodes : public MatmulFormat {};
INSTANTIATE_TEST_SUITE_P(Quantised, MatmulCodes, testing::ValuesIn(all_formats.begin() + 3, all_formats.end()), format_name);

/// ||a - b|| / ||b||
double relative_distance(const std::vector<float>& a, const std::vector<double>& b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

TEST_P(MatmulFormat, AgreesWithTheDequantisedProduct) {
  const DType type = GetParam();
  for (const auto& [k, n, tokens] : cases_of(type)) {
    const auto weight = random_weight(type, n, k, 1);
    const auto values = dequantised(type, weight, n, k);
    const auto x = random_input(tokens * k, 2);
    const auto expected = expected_product(x, values, tokens, n, k);
    for (const auto& kernel : kernels) {
      SCOPED_TRACE(testing::Message() << kernel->name() << " k " << k << " n " << n << " tokens " << tokens);
      // With activations rounded in the same way only the order of f32 additions may differ; with x the general tolerance
      // applies.
      const auto read = as_read_by(*kernel, type, x);
      const auto rounded = expected_product(read, values, tokens, n, k);
      const auto out = multiply(*kernel, type, weight, x, tokens, n, k, context);
      for (std::size_t i = 0; i < out.size(); ++i) {
        ASSERT_NEAR(out[i], rounded.y[i], 2e-6 * rounded.magnitude[i]) << "token " << i / n << " row " << i % n;
      }
      if (out.size() >= 100) {  // fewer are no average
        EXPECT_LE(relative_distance(out, expected.y), is_quantised(type) ? 5e-3 : read == x ? 1e-5 : 8e-3);
      }
    }
  }
}

TEST_P(MatmulFormat, GivesATokenTheSameBitsInEveryBatchOnAnyNumberOfThreads) {
  const DType type = GetParam();
  constexpr std::int64_t k = 768;
  constexpr std::int64_t n = 100;
  constexpr std::int64_t most_tokens = 270;
  const auto weight = random_weight(type, n, k, 3);
  const auto x = random_input(most_tokens * k, 4);
  for (const auto& kernel : kernels) {
    ThreadPool one(1);
    ExecutionContext alone{&one};
    std::vector<float> expected;
    for (std::int64_t t = 0; t < most_tokens; ++t) {
      const std::vector<float> row(x.begin() + t * k, x.begin() + (t + 1) * k);
      const auto y = multiply(*kernel, type, weight, row, 1, n, k, alone);
      expected.insert(expected.end(), y.begin(), y.end());
    }
    for (int threads = 1; threads <= 4; ++threads) {
      ThreadPool some(threads);
      ExecutionContext together{&some};
      for (const std::int64_t tokens : {1, 2, 3, 4, 5, 6, 7, 13, 64, 270}) {
        const auto out = multiply(*kernel, type, weight, x, tokens, n, k, together);
        const bool same = std::equal(out.begin(), out.end(), expected.begin(), [](float a, float b) {
          return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
        });
        EXPECT_TRUE(same) << kernel->name() << ": " << tokens << " tokens on " << threads << " threads";
      }
    }
  }
}

TEST_P(MatmulFormat, AddsBiasAndAccumulatesInsideItsColumnsOnly) {
  const DType type = GetParam();
  constexpr std::int64_t k = 512;
  constexpr std::int64_t n = 37;
  constexpr std::int64_t stride = 45;
  constexpr std::int64_t x_stride = 530;
  for (const std::int64_t tokens : {1, 9}) {
    const auto weight = random_weight(type, n, k, 5);
    const auto wide_x = random_input(tokens * x_stride, 6);
    std::vector<float> x;
    for (std::int64_t t = 0; t < tokens; ++t) {
      x.insert(x.end(), wide_x.begin() + t * x_stride, wide_x.begin() + t * x_stride + k);
    }
    const auto bias = random_input(n, 7);
    const auto before = random_input(tokens * n, 8);
    for (const auto& kernel : kernels) {
      SCOPED_TRACE(kernel->name());
      const auto product = multiply(*kernel, type, weight, x, tokens, n, k, context);
      PackedWeight packed(*kernel, type, weight, n, k, context);
      for (const bool accumulate : {false, true}) {
        std::vector<float> out(static_cast<std::size_t>(tokens * stride), nan);
        for (std::int64_t i = 0; accumulate && i < tokens * n; ++i) {
          out[static_cast<std::size_t>(i / n * stride + i % n)] = before[static_cast<std::size_t>(i)];
        }
        MatmulOutput output = packed.output(out.data(), stride);
        output.bias = bias.data();
        output.accumulate = accumulate;
        run(*kernel, wide_x.data(), tokens, k, x_stride, {&output, 1}, context);
        for (std::int64_t i = 0; i < tokens * stride; ++i) {
          const auto column = static_cast<std::size_t>(i % stride);
          const float got = out[static_cast<std::size_t>(i)];
          if (i % stride >= n) {
            ASSERT_TRUE(std::isnan(got)) << "written past the last column";
            continue;
          }
          const auto at = static_cast<std::size_t>(i / stride * n + i % stride);
          const float y = product[at] + bias[column];
          ASSERT_EQ(got, accumulate ? before[at] + y : y);
        }
      }
    }
  }
}

TEST_P(MatmulCodes, HoldExtremesWithoutSaturation) {
  const DType type = GetParam();
  constexpr std::int64_t k = 256;
  constexpr std::int64_t n = 16;
  for (const int fill : {0x00, 0x7f, 0x80, 0x88, 0xf0, 0x0f, 0xff}) {
    auto weight = random_weight(type, n, k, 9);
    Formats::visit(type, [&]<class Block>(Block*) {
      for (std::size_t at = 0; at < weight.size(); at += sizeof(Block)) {
        Block block;
        std::memset(static_cast<void*>(&block), fill, sizeof block);
        if constexpr (has_block_scale<Block>) {
          set_block_scale(block, half(1.0f));
        }
        if constexpr (requires { block.minimum; }) {
          block.minimum = half(3.0f);
        }
        if constexpr (requires { block.minimum_scale; }) {
          block.minimum_scale = half(1.0f);
        }
        if constexpr (requires { block.exponent; }) {
          block.exponent = 128;
        }
        std::memcpy(weight.data() + at, &block, sizeof block);
      }
    });
    const auto values = dequantised(type, weight, n, k);
    for (const float sign : {1.0f, -1.0f}) {
      for (const std::int64_t tokens : {1, 7}) {
        const std::vector<float> x(static_cast<std::size_t>(tokens * k), sign * 1e4f);
        const auto expected = expected_product(x, values, tokens, n, k);
        for (const auto& kernel : kernels) {
          const auto out = multiply(*kernel, type, weight, x, tokens, n, k, context);
          for (std::size_t i = 0; i < out.size(); ++i) {
            ASSERT_NEAR(out[i], expected.y[i], 2e-6 * expected.magnitude[i]) << kernel->name() << " codes " << fill;
          }
        }
      }
    }
  }
}

TEST_P(MatmulFormat, ZeroTinyAndBrokenInputs) {
  const DType type = GetParam();
  constexpr std::int64_t k = 512;
  constexpr std::int64_t n = 20;
  const auto weight = random_weight(type, n, k, 10);
  for (const auto& kernel : kernels) {
    for (const std::int64_t tokens : {1, 8}) {
      SCOPED_TRACE(testing::Message() << kernel->name() << " tokens " << tokens);
      std::vector<float> x(static_cast<std::size_t>(tokens * k), 0.0f);
      EXPECT_THAT(multiply(*kernel, type, weight, x, tokens, n, k, context), testing::Each(0.0f));
      std::ranges::fill(x, 1e-38f);
      EXPECT_THAT(multiply(*kernel, type, weight, x, tokens, n, k, context),
                  testing::Each(testing::FloatNear(0.0f, 1e-34f)));
      for (const float broken : {nan, std::numeric_limits<float>::infinity()}) {
        x = random_input(tokens * k, 11);
        x[300] = broken;
        const auto out = multiply(*kernel, type, weight, x, tokens, n, k, context);
        for (std::int64_t i = 0; i < tokens * n; ++i) {
          ASSERT_EQ(std::isfinite(out[static_cast<std::size_t>(i)]), i >= n)
              << "only the token with the broken value is broken";
        }
      }
    }
  }
}

TEST(Matmul, ScalesMayBeDenormal) {
  ThreadPool pool(1);
  ExecutionContext context{&pool};
  constexpr std::int64_t k = 256;
  constexpr std::int64_t n = 4;
  const auto x = random_input(k, 12);
  for (const DType type : all_formats) {
    auto weight = random_weight(type, n, k, 13);
    Formats::visit(type, [&]<class Block>(Block*) {
      for (std::size_t at = 0; at < weight.size(); at += sizeof(Block)) {
        Block block;
        std::memcpy(&block, weight.data() + at, sizeof block);
        if constexpr (has_block_scale<Block>) {
          half least{};
          least.bits = 0x0003;
          set_block_scale(block, least);
        }
        if constexpr (requires { block.minimum; }) {
          block.minimum.bits = 0x8005;
        }
        if constexpr (requires { block.minimum_scale; }) {
          block.minimum_scale.bits = 0x0001;
        }
        if constexpr (requires { block.exponent; }) {
          block.exponent = static_cast<std::uint8_t>(at / sizeof(Block) % 2);
        }
        std::memcpy(weight.data() + at, &block, sizeof block);
      }
    });
    for (const auto& kernel : runnable_kernels(type)) {
      const auto expected = expected_product(as_read_by(*kernel, type, x), dequantised(type, weight, n, k), 1, n, k);
      const auto out = multiply(*kernel, type, weight, x, 1, n, k, context);
      for (std::size_t i = 0; i < out.size(); ++i) {
        // MXFP4's smallest scales make sums that are themselves denormal: allow some of their steps.
        ASSERT_NEAR(out[i], expected.y[i], 2e-6 * expected.magnitude[i] + 32 * 0x1p-149)
            << kernel->name() << " " << name(type);
      }
    }
  }
}

TEST(Matmul, GroupsOfFormatsGiveWhatEachGivesAlone) {
  ThreadPool pool(3);
  ExecutionContext context{&pool};
  constexpr std::int64_t k = 512;
  const std::vector<std::pair<DType, std::int64_t>> members = {
      {DType::q4_k, 40}, {DType::f16, 7}, {DType::q6_k, 16}, {DType::q8_0, 65}, {DType::f32, 1}};
  for (const auto& kernel : runnable_kernels(DType::q8_0)) {
    for (const std::int64_t tokens : {1, 2, 11}) {
      const auto x = random_input(tokens * k, 14);
      std::vector<std::vector<std::byte>> weights;
      std::vector<PackedWeight> packed;
      std::vector<std::vector<float>> outs;
      std::vector<MatmulOutput> outputs;
      for (const auto& [type, n] : members) {
        weights.push_back(random_weight(type, n, k, 15 + static_cast<std::uint32_t>(n)));
        packed.emplace_back(*kernel, type, weights.back(), n, k, context);
        outs.emplace_back(static_cast<std::size_t>(tokens * n), nan);
      }
      for (std::size_t i = 0; i < members.size(); ++i) {
        outputs.push_back(packed[i].output(outs[i].data(), members[i].second));
      }
      run(*kernel, x.data(), tokens, k, k, outputs, context);
      for (std::size_t i = 0; i < members.size(); ++i) {
        const auto& [type, n] = members[i];
        EXPECT_EQ(outs[i], multiply(*kernel, type, weights[i], x, tokens, n, k, context))
            << kernel->name() << " " << name(type);
      }
    }
  }
}

TEST(Matmul, PlainRowsOfAnyLengthNeedNoAlignment) {
  ThreadPool pool(2);
  ExecutionContext context{&pool};
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (const std::int64_t k : {1, 3, 15, 17, 33, 100}) {
      for (const std::int64_t tokens : {1, 7}) {
        constexpr std::int64_t n = 9;
        const auto weight = random_weight(type, n, k, 16);
        const auto x = random_input(tokens * k, 17);
        for (const auto& kernel : runnable_kernels(type)) {
          const auto expected =
              expected_product(as_read_by(*kernel, type, x), dequantised(type, weight, n, k), tokens, n, k);
          const auto out = multiply(*kernel, type, weight, x, tokens, n, k, context);
          for (std::size_t i = 0; i < out.size(); ++i) {
            ASSERT_NEAR(out[i], expected.y[i], 2e-6 * expected.magnitude[i])
                << kernel->name() << " " << name(type) << " k " << k;
          }
        }
      }
    }
  }
}

TEST(Matmul, VocabularySizedWeightsHaveNoLimit) {
  ThreadPool pool(2);
  ExecutionContext context{&pool};
  constexpr std::int64_t k = 32;
  constexpr std::int64_t n = 151936;
  const auto weight = random_weight(DType::q4_0, n, k, 18);
  const auto x = random_input(2 * k, 19);
  const auto expected = expected_product(rounded_to_8_bits(x), dequantised(DType::q4_0, weight, n, k), 2, n, k);
  const auto kernel = std::move(runnable_kernels(DType::q4_0).front());
  const auto out = multiply(*kernel, DType::q4_0, weight, x, 2, n, k, context);
  for (std::size_t i = 0; i < out.size(); ++i) {
    ASSERT_NEAR(out[i], expected.y[i], 2e-6 * expected.magnitude[i]);
  }
}

/// Bits that an element of a packed weight may take.
double most_bits(DType type) {
  switch (type) {
    case DType::iq1_s:
    case DType::tq1_0:
    case DType::tq2_0:
      return 2.625;
    case DType::iq1_m:
    case DType::iq2_xxs:
    case DType::iq2_xs:
    case DType::iq2_s:
      return 3.625;
    case DType::iq3_xxs:
    case DType::iq3_s:
      return 4.625;
    case DType::nvfp4:
      return 5.0;
    default:  // hardly more than the file's
      return 8.0 * static_cast<double>(info(type).block_bytes) / static_cast<double>(info(type).block_elems) * 1.06;
  }
}

TEST(Matmul, PackedWeightsAreNotMuchLargerThanTheFile) {
  for (const auto& kernel : make_cpu_matmuls()) {
    for (const DType type : all_formats) {
      const Matmul::Spec spec{type, 1024, 2048};
      const double bits = 8.0 * static_cast<double>(kernel->packed_bytes(spec)) / static_cast<double>(spec.n * spec.k);
      EXPECT_LE(bits, most_bits(type)) << name(type);
    }
  }
}

TEST(Matmul, RefusesWithAReason) {
  DeviceInfo weak;
  weak.cpu_isa = CpuIsa::generic;
  const DeviceInfo here = cpu_device_info();
  for (const auto& kernel : make_cpu_matmuls()) {
    if (kernel->name() != "cpu_generic") {
      EXPECT_THAT(kernel->supports({DType::q4_0, 16, 64}, weak).reason, testing::HasSubstr("instruction set is generic"));
      continue;
    }
    EXPECT_TRUE(kernel->supports({DType::q4_0, 16, 64}, weak).ok);
    EXPECT_THAT(kernel->supports({DType::q4_k, 16, 128}, here).reason, testing::HasSubstr("not a multiple of the 256"));
    EXPECT_THAT(kernel->supports({DType::q1_0, 16, 256}, here).reason, testing::HasSubstr("Q1_0 does not compute"));
    EXPECT_FALSE(kernel->supports({DType::q4_0, 0, 64}, here).ok);
  }
}

TEST(Matmul, NoTokensIsNoWork) {
  ThreadPool pool(2);
  ExecutionContext context{&pool};
  const auto weight = random_weight(DType::q8_0, 16, 32, 20);
  const float x = 1.0f;
  float out = nan;
  for (const auto& kernel : runnable_kernels(DType::q8_0)) {
    PackedWeight packed(*kernel, DType::q8_0, weight, 16, 32, context);
    const MatmulOutput output = packed.output(&out, 16);
    run(*kernel, &x, 0, 32, 32, {&output, 1}, context);
    EXPECT_TRUE(std::isnan(out));
  }
}

}  // namespace
}  // namespace rocmforge::matmul_test
