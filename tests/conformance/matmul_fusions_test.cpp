// Products that fuse the norm before them or the activation after them, compared with the separate operations in double:
// norm, product with the dequantised weight, activation.

#include <algorithm>
#include <array>

#include "conformance/harness.h"
#include "conformance/matmul_products.h"
#include "kernels/rows/reference/activation.h"

namespace rocmforge::test {
namespace {

constexpr float norm_eps = 1e-5f;

struct Fused {
  std::vector<DType> formats;  ///< of the outputs
  std::vector<std::int64_t> n;
  std::int64_t k = 0;
  std::int64_t tokens = 0;
  bool norm = false;
  bool gated = false;
  Activation activation = Activation::silu;
  bool bias = false;
  bool accumulate = false;
  std::int64_t extra = 0;  ///< columns between rows of x and of each output
  float amplitude = 1.0f;  ///< of x

  [[nodiscard]] std::size_t outputs() const { return n.size(); }
  [[nodiscard]] std::size_t written() const { return gated ? 1 : n.size(); }
  [[nodiscard]] std::int64_t x_stride() const { return k + extra; }
  [[nodiscard]] std::int64_t stride(std::size_t i) const { return n[i] + extra; }

  [[nodiscard]] std::vector<float> x() const {
    Random random(static_cast<std::uint64_t>(tokens * 17 + k));
    return random.uniforms(tokens * x_stride(), -amplitude, amplitude);
  }
  [[nodiscard]] std::vector<float> norm_weight() const {
    Random random(21);
    return random.uniforms(k, 0.5f, 1.5f);
  }
  [[nodiscard]] std::vector<std::byte> rows(std::size_t i) const {
    Random random(31 + i);
    return random_rows(formats[i], n[i], k, random);
  }
  [[nodiscard]] std::vector<float> bias_of(std::size_t i) const {
    Random random(41 + i);
    return random.normals(n[i]);
  }
  /// Of the whole weight, where the format has that.
  [[nodiscard]] float scale_of(std::size_t i) const {
    return formats[i] == DType::nvfp4 ? (i % 2 == 0 ? -0.75f : 1.5f) : 1.0f;
  }
  [[nodiscard]] std::vector<float> before(std::size_t i) const {
    Random random(51 + i);
    return accumulate ? random.normals(tokens * stride(i)) : poisoned(tokens * stride(i));
  }
};

/// [tokens, k] in double, normalised where that is asked for.
std::vector<double> inputs_of(const Fused& call) {
  const std::vector<float> x = call.x();
  const std::vector<float> weight = call.norm_weight();
  std::vector<double> out;
  for (std::int64_t t = 0; t < call.tokens; ++t) {
    const std::span row(x.data() + t * call.x_stride(), static_cast<std::size_t>(call.k));
    double sum = 0.0;
    for (const float value : row) {
      sum += double{value} * double{value};
    }
    const double scale = 1.0 / std::sqrt(sum / static_cast<double>(call.k) + double{norm_eps});
    for (std::size_t i = 0; i < row.size(); ++i) {
      out.push_back(call.norm ? double{row[i]} * scale * double{weight[i]} : double{row[i]});
    }
  }
  return out;
}

/// The expected result of the call: its written outputs one after another, each dense.
std::vector<float> expected_of(const Fused& call) {
  const std::vector<double> x = inputs_of(call);
  std::vector<float> all;
  std::vector<double> sums = products_of(call, x, 0);
  if (call.gated) {
    const std::vector<double> up = products_of(call, x, 1);
    for (std::size_t j = 0; j < sums.size(); ++j) {
      all.push_back(static_cast<float>(activate(call.activation, sums[j]) * up[j]));
    }
    return all;
  }
  for (std::size_t i = 0; i < call.outputs(); ++i) {
    sums = products_of(call, x, i);
    const std::vector<float> before = call.before(i);
    for (std::int64_t t = 0; t < call.tokens; ++t) {
      for (std::int64_t n = 0; n < call.n[i]; ++n) {
        const double old = call.accumulate ? double{before[static_cast<std::size_t>(t * call.stride(i) + n)]} : 0.0;
        all.push_back(static_cast<float>(old + sums[static_cast<std::size_t>(t * call.n[i] + n)]));
      }
    }
  }
  return all;
}

std::vector<std::byte> stored(const MatmulKernel& kernel, const Matmul::Spec& spec, const std::vector<std::byte>& rows) {
  PoisonedBytes packed(kernel.packed_bytes(spec));
  if (packed.bytes().empty()) {
    return rows;
  }
  kernel.pack(spec, rows.data(), packed.data(), harness().host.context);
  return {packed.bytes().begin(), packed.bytes().end()};
}

/// The written outputs; columns between the rows must stay as they were.
std::vector<float> run_fused(const MatmulKernel& kernel, const Fused& call) {
  Arena arena(harness().place_of(kernel));
  std::vector<MatmulOutput> outputs;
  for (std::size_t i = 0; i < call.outputs(); ++i) {
    const Matmul::Spec spec{call.formats[i], call.n[i], call.k};
    MatmulOutput output{spec.weight, arena.in(stored(kernel, spec, call.rows(i))), spec.n};
    output.bias = call.bias ? arena.in(call.bias_of(i)) : nullptr;
    output.out = i < call.written() ? arena.in_out(call.before(i)) : nullptr;
    output.stride = call.stride(i);
    output.accumulate = call.accumulate;
    output.scale = call.scale_of(i);
    outputs.push_back(output);
  }
  Matmul::Args args{arena.in(call.x()), call.tokens, call.k, call.x_stride(), outputs};
  args.workspace = arena.workspace(kernel.workspace_bytes(call.tokens, call.k));
  args.norm_weight = call.norm ? arena.in(call.norm_weight()) : nullptr;
  args.norm_eps = norm_eps;
  args.gated = call.gated;
  args.activation = call.activation;
  arena.run([&](ExecutionContext& context) { kernel.run(args, context); });

  std::vector<float> all;
  for (std::size_t i = 0; i < call.written(); ++i) {
    const std::vector<float> before = call.before(i);
    const std::vector<float> out = arena.read(outputs[i].out, call.tokens * call.stride(i));
    for (std::int64_t t = 0; t < call.tokens; ++t) {
      const auto row = out.begin() + t * call.stride(i);
      all.insert(all.end(), row, row + call.n[i]);
      const std::span after(out.data() + t * call.stride(i) + call.n[i], static_cast<std::size_t>(call.extra));
      EXPECT_TRUE(same_bits(after, {before.data() + t * call.stride(i) + call.n[i], after.size()})) << "wrote beyond n";
    }
  }
  return all;
}

/// The allowed error. The activation changes the effect of the gate's error, and up has an error of its own.
double allowed(const Fused& call) {
  double largest = 0.0;
  for (const DType format : call.formats) {
    largest = std::max(largest, tolerance(format));
  }
  return call.gated ? 2 * largest : largest;
}

/// Calls test(kernel, fusions) for every kernel that declares a fusion and serves the formats.
template <class Test>
int for_each_fusing_kernel(std::span<const DType> formats, const Test& test) {
  int count = 0;
  for (const auto& kernel : harness().registry.all<Matmul>()) {
    const MatmulFusions fusions = kernel->fusions();
    const bool serves = std::ranges::all_of(formats, [&](DType format) {
      return kernel->supports({format, 64, 512}, harness().device).ok;
    });
    if (kernel->device() != harness().device.kind || !serves || std::max(fusions.norm_tokens, fusions.gate_tokens) == 0) {
      continue;
    }
    SCOPED_TRACE(std::string(kernel->name()));
    test(*kernel, fusions);
    ++count;
  }
  return count;
}

/// Runs `call` with a choice of numbers of tokens up to the kernel's limit.
void expect_fused(const MatmulKernel& kernel, const MatmulFusions& fusions, Fused call) {
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
  limit = call.norm ? std::min(limit, fusions.norm_tokens) : limit;
  limit = call.gated ? std::min(limit, fusions.gate_tokens) : limit;
  const std::int64_t most = harness().size<std::int64_t>(harness().is_gpu() ? 300 : 20, 20);
  std::vector<float> expected;
  std::vector<float> actual;
  for (const std::int64_t tokens : {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7}, std::int64_t{8},
                                    std::int64_t{17}, std::min(limit, most)}) {
    if (tokens > limit) {
      continue;
    }
    call.tokens = tokens;
    const std::vector<float> want = expected_of(call);
    const std::vector<float> got = run_fused(kernel, call);
    EXPECT_LE(relative_error(got, want), 4 * allowed(call)) << tokens << " tokens";
    expected.insert(expected.end(), want.begin(), want.end());
    actual.insert(actual.end(), got.begin(), got.end());
  }
  EXPECT_LE(relative_error(actual, expected), allowed(call));
}

class MatmulFusionsTiny : public testing::TestWithParam<DType> {};

std::string format_name(const testing::TestParamInfo<DType>& test) { return std::string(name(test.param)); }

TEST_P(MatmulFusionsTiny, EqualTheChainOfOperations) {
  const DType format = GetParam();
  const std::array formats{format};
  const int kernels = for_each_fusing_kernel(formats, [&](const MatmulKernel& kernel, const MatmulFusions& fusions) {
    if (fusions.norm_tokens > 0) {
      expect_fused(kernel, fusions, {.formats = {format}, .n = {33}, .k = 512, .norm = true});
      expect_fused(
          kernel, fusions,
          {.formats = {format, format, format}, .n = {64, 17, 32}, .k = 256, .norm = true, .bias = true, .extra = 4});
      expect_fused(kernel, fusions,
                   {.formats = {format}, .n = {40}, .k = 768, .norm = true, .accumulate = true, .extra = 3});
      expect_fused(kernel, fusions, {.formats = {format, format}, .n = {33, 8}, .k = 1280, .norm = true, .bias = true});
    }
    if (fusions.gate_tokens > 0) {
      expect_fused(kernel, fusions, {.formats = {format, format}, .n = {33, 33}, .k = 512, .gated = true});
      expect_fused(kernel, fusions,
                   {.formats = {format, format},
                    .n = {96, 96},
                    .k = 256,
                    .gated = true,
                    .activation = Activation::gelu_tanh,
                    .bias = true,
                    .extra = 4});
    }
    if (fusions.norm_tokens > 0 && fusions.gate_tokens > 0) {
      expect_fused(
          kernel, fusions,
          {.formats = {format, format}, .n = {65, 65}, .k = 768, .norm = true, .gated = true, .bias = true, .extra = 1});
      expect_fused(kernel, fusions, {.formats = {format, format}, .n = {35, 35}, .k = 1280, .norm = true, .gated = true});
    }
  });
  if (kernels == 0) {
    GTEST_SKIP() << "no kernel of this device takes a norm or an activation into its product of " << name(format);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, MatmulFusionsTiny, testing::ValuesIn(computing_types()), format_name);

/// Q, K and V of different formats, as mixed quantisations have them.
TEST(MatmulFusions, TinyGroupsOfSeveralFormats) {
  constexpr std::array<std::array<DType, 3>, 6> groups{{{DType::q4_k, DType::q4_k, DType::q6_k},
                                                        {DType::iq4_xs, DType::q2_k, DType::q3_k},
                                                        {DType::q4_1, DType::iq4_nl, DType::q5_1},
                                                        {DType::iq3_s, DType::iq2_s, DType::q4_k},
                                                        {DType::iq2_xxs, DType::tq1_0, DType::iq2_s},
                                                        {DType::iq3_xxs, DType::iq1_m, DType::nvfp4}}};
  int kernels = 0;
  for (const auto& formats : groups) {
    kernels += for_each_fusing_kernel(formats, [&](const MatmulKernel& kernel, const MatmulFusions& fusions) {
      const std::vector<DType> all(formats.begin(), formats.end());
      if (fusions.norm_tokens > 0) {
        expect_fused(kernel, fusions, {.formats = all, .n = {128, 33, 32}, .k = 512, .norm = true, .bias = true});
      }
      if (fusions.gate_tokens > 0) {
        expect_fused(kernel, fusions, {.formats = {all[0], all[2]}, .n = {48, 48}, .k = 512, .gated = true});
      }
    });
  }
  if (kernels == 0) {
    GTEST_SKIP() << "no kernel of this device takes a norm or an activation into its products";
  }
}

/// Wide layers, whose weights a kernel may process in several parts.
TEST(MatmulFusions, HugeGatesOfManyRows) {
  for (const DType format : {DType::q4_k, DType::q6_k, DType::q8_0}) {
    const std::array formats{format, format};
    for_each_fusing_kernel(formats, [&](const MatmulKernel& kernel, const MatmulFusions& fusions) {
      for (const std::int64_t tokens : {9, 17, 40}) {
        const Fused call{
            .formats = {format, format}, .n = {4608, 4608}, .k = 2048, .tokens = tokens, .norm = true, .gated = true};
        if (tokens <= std::min(fusions.norm_tokens, fusions.gate_tokens)) {
          EXPECT_LE(relative_error(run_fused(kernel, call), expected_of(call)), allowed(call)) << tokens << " tokens";
        }
      }
    });
  }
}

/// The norm scales rows of any magnitude to the same size. Neither tiny nor huge rows may lose precision or overflow before
/// that.
TEST(MatmulFusions, TinyNormsOfSmallAndLargeRows) {
  const std::array formats{DType::q8_0};
  const int kernels = for_each_fusing_kernel(formats, [&](const MatmulKernel& kernel, const MatmulFusions& fusions) {
    for (const float amplitude : {1e-2f, 3e5f}) {
      if (fusions.norm_tokens > 0) {
        expect_fused(kernel, fusions, {.formats = {DType::q8_0}, .n = {64}, .k = 512, .norm = true, .amplitude = amplitude});
      }
    }
  });
  if (kernels == 0) {
    GTEST_SKIP() << "no kernel of this device takes a norm into its products";
  }
}

/// A fusion that a kernel does not declare is refused: there is never a product without its norm.
TEST(MatmulFusions, TinyUndeclaredOnesAreRefused) {
  const Matmul::Spec spec{DType::q8_0, 8, 64};
  for (const auto& kernel : harness().registry.all<Matmul>()) {
    if (kernel->device() != harness().device.kind || !kernel->supports(spec, harness().device).ok) {
      continue;
    }
    SCOPED_TRACE(std::string(kernel->name()));
    const MatmulFusions fusions = kernel->fusions();
    for (const std::int64_t limit : {fusions.norm_tokens, fusions.gate_tokens}) {
      EXPECT_TRUE(limit == 0 || limit >= kernel->few_tokens()) << "calls of few tokens would not round alike";
    }
    Arena arena(harness().place_of(*kernel));
    auto* data = arena.out<float>(1024);
    const MatmulOutput output{spec.weight, data, 8, nullptr, data, 8, false};
    const std::array pair{output, output};
    ExecutionContext& context = harness().place_of(*kernel).context;
    const auto refuses = [&](const Matmul::Args& args, std::string_view words) {
      try {
        kernel->run(args, context);
        ADD_FAILURE() << "not refused: " << words;
      } catch (const LogicError& error) {
        EXPECT_NE(std::string_view(error.what()).find(words), std::string_view::npos) << error.what();
      }
    };
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    if (fusions.norm_tokens < most) {
      refuses({.x = data,
               .tokens = fusions.norm_tokens + 1,
               .k = 64,
               .x_stride = 64,
               .outputs = {&output, 1},
               .norm_weight = data},
              "tokens with a norm");
    }
    if (fusions.gate_tokens < most) {
      refuses({.x = data, .tokens = fusions.gate_tokens + 1, .k = 64, .x_stride = 64, .outputs = pair, .gated = true},
              "tokens with an activation");
    }
    if (fusions.gate_tokens > 0) {
      refuses({.x = data, .tokens = 1, .k = 64, .x_stride = 64, .outputs = {&output, 1}, .gated = true},
              "1 outputs are gated, not two");
      std::array unequal = pair;
      unequal[1].n = 7;
      refuses({.x = data, .tokens = 1, .k = 64, .x_stride = 64, .outputs = unequal, .gated = true}, "a gate of n 8 for n 7");
      std::array adding = pair;
      adding[0].accumulate = true;
      refuses({.x = data, .tokens = 1, .k = 64, .x_stride = 64, .outputs = adding, .gated = true},
              "a gated output accumulates");
    }
  }
}

}  // namespace
}  // namespace rocmforge::test
