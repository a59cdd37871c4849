// Norms, activations and other operations on rows at the sizes of real work, on a real GPU: every element is compared with
// the plain kernels' (check). Outputs are poisoned, and each call runs in all situations.

#include <algorithm>

#include "conformance/at_size.h"

namespace rocmforge::test::at_size_rows_test {
namespace {

constexpr std::int64_t tokens_of_steps[] = {1, 3, 32, 63, 257, 2048, 16384};
constexpr std::int64_t most_elements = std::int64_t{1} << 28;

/// A result of F32. fill(out) gives the Args.
template <class Op, class Fill>
std::int64_t compare_rows(const typename Op::Spec& spec, std::int64_t rows, std::int64_t width, const Fill& fill,
                          const DeviceBuffer* before = nullptr) {
  return compare_one_output<Op>(spec, {.rows = rows, .width = width, .before = before}, fill);
}

// Rows of the models, and heads of their queries.
TEST(HugeRows, RmsNorm) {
  std::int64_t elements = 0;
  for (const RmsNorm::Spec& spec : {RmsNorm::Spec{896, 1e-6f},
                                    {2048, 1e-5f},
                                    {2880, 1e-5f},
                                    {3840, 1e-6f},
                                    {4096, 1e-5f},
                                    {8192, 1e-5f},
                                    {128, 1e-6f, 32},
                                    {1024, 1e-5f, 8}}) {
    for (const std::int64_t tokens : tokens_of_steps) {
      const std::int64_t rows = tokens * spec.groups;
      const DeviceBuffer x = random_floats(rows * spec.dim, 1, 2.0f);
      const DeviceBuffer before = random_floats(rows * spec.dim, 2);
      const DeviceBuffer weight = random_floats(spec.groups * spec.dim, 3);
      const auto args_for = [&](float* out) {
        return RmsNorm::Args{.x = x.as<float>(), .rows = rows, .weight = weight.as<float>(), .out = out};
      };
      elements += compare_rows<RmsNorm>(spec, rows, spec.dim, args_for);
      // In place, and added to the residual stream in place.
      elements += compare_rows<RmsNorm>(
          spec, rows, spec.dim,
          [&](float* out) {
            RmsNorm::Args args = args_for(out);
            args.x = out;
            return args;
          },
          &x);
      elements += compare_rows<RmsNorm>(
          spec, rows, spec.dim,
          [&](float* out) {
            RmsNorm::Args args = args_for(out);
            args.residual = out;
            args.factor = 0.5f;
            args.scale = 1.25f;
            return args;
          },
          &before);
    }
  }
  print_elements("rms_norm", elements);
}

TEST(HugeRows, LayerNorm) {
  std::int64_t elements = 0;
  for (const LayerNorm::Spec& spec : {LayerNorm::Spec{768, 1e-5f, true},
                                      {3072, 1e-5f, true},
                                      {4096, 1e-5f, false},
                                      {4544, 1e-5f, true},
                                      {128, 1e-5f, false, 64}}) {
    const std::int64_t width = spec.groups * spec.dim;
    const DeviceBuffer weight = random_floats(width, 3);
    const DeviceBuffer bias = random_floats(width, 4);
    for (const std::int64_t tokens : tokens_of_steps) {
      const DeviceBuffer x = random_floats(tokens * width, 1, 2.0f);
      elements += compare_rows<LayerNorm>(spec, tokens, width, [&](float* out) {
        return LayerNorm::Args{.x = x.as<float>(),
                               .rows = tokens,
                               .weight = weight.as<float>(),
                               .bias = spec.bias ? bias.as<float>() : nullptr,
                               .out = out};
      });
    }
  }
  print_elements("layer_norm", elements);
}

TEST(HugeRows, GatedActivation) {
  using enum Activation;
  std::int64_t elements = 0;
  for (const GatedActivation::Spec& spec : {GatedActivation::Spec{silu, 4864, true},
                                            {silu, 14336, true},
                                            {silu, 28672, true},
                                            {gelu_tanh, 15360, true},
                                            {gelu, 3072, false},
                                            {relu_squared, 21504, false}}) {
    const std::int64_t stride = (spec.gated ? 2 : 1) * spec.width;
    for (const std::int64_t tokens : tokens_of_steps) {
      if (tokens * stride > most_elements) {
        continue;
      }
      const DeviceBuffer x = random_floats(tokens * stride, 1, 2.0f);
      const float* const up = x.as<float>() + (spec.gated ? spec.width : 0);
      elements += compare_rows<GatedActivation>(spec, tokens, spec.width, [&](float* out) {
        return GatedActivation::Args{
            .gate = spec.gated ? x.as<float>() : nullptr, .up = up, .tokens = tokens, .stride = stride, .out = out};
      });
    }
  }
  print_elements("gated_activation", elements);
}

TEST(HugeRows, ResidualAdd) {
  std::int64_t elements = 0;
  for (const std::int64_t width : {896, 2880, 4096, 8192}) {
    for (const std::int64_t tokens : tokens_of_steps) {
      const DeviceBuffer a = random_floats(tokens * width, 1);
      const DeviceBuffer b = random_floats(tokens * width, 2);
      elements += compare_rows<ResidualAdd>(
          {}, tokens, width,
          [&](float* out) {
            return ResidualAdd::Args{
                .a = out, .b = b.as<float>(), .count = tokens * width, .out = out, .factor = 0.5f, .scale = 1.25f};
          },
          &a);
    }
  }
  print_elements("residual_add", elements);
}

TEST(HugeRows, OutputGate) {
  std::int64_t elements = 0;
  for (const OutputGate::Spec& spec :
       {OutputGate::Spec{32, 128, OutputGate::Gate::silu, true, 1e-6f}, {16, 256, OutputGate::Gate::sigmoid, false}}) {
    const DeviceBuffer weight = random_floats(spec.dim, 3);
    for (const std::int64_t tokens : tokens_of_steps) {
      const DeviceBuffer x = random_floats(tokens * spec.width(), 1);
      const DeviceBuffer gate = random_floats(tokens * spec.width(), 2);
      elements += compare_rows<OutputGate>(spec, tokens * spec.heads, spec.dim, [&](float* out) {
        return OutputGate::Args{.x = x.as<float>(),
                                .x_stride = spec.width(),
                                .gate = gate.as<float>(),
                                .gate_stride = spec.width(),
                                .weight = spec.norm ? weight.as<float>() : nullptr,
                                .tokens = tokens,
                                .out = out};
      });
    }
  }
  print_elements("output_gate", elements);
}

TEST(HugeRows, GatherRowsAndCopyHeads) {
  std::int64_t elements = 0;
  for (const std::int64_t tokens : tokens_of_steps) {
    Random random(5);
    const DeviceBuffer x = random_floats(tokens * 5120, 1);
    const DeviceBuffer ids = uploaded(random.permutation(static_cast<std::int32_t>(tokens)));
    elements += compare_rows<GatherRows>({5120}, tokens, 5120, [&](float* out) {
      return GatherRows::Args{.x = x.as<float>(), .ids = ids.as<std::int32_t>(), .count = tokens, .out = out};
    });
    // Parts of 5,120 / 256 = 20 heads beside others' of 24, whose values stay.
    const DeviceBuffer before = random_floats(tokens * 24 * 192, 2);
    elements += compare_rows<CopyHeads>(
        {256, 192}, tokens * 24, 192,
        [&](float* out) {
          return CopyHeads::Args{
              .x = x.as<float>(), .heads = 20, .tokens = tokens, .out = out, .out_heads = 24, .first_head = 3};
        },
        &before);
  }
  print_elements("gather_rows and copy_heads", elements);
}

// The vocabularies of the models, in the formats of their files.
TEST(HugeRows, Embedding) {
  std::int64_t elements = 0;
  for (const EmbeddingRows::Spec& spec : {EmbeddingRows::Spec{DType::q8_0, 151936, 896},
                                          {DType::q6_k, 262144, 3840},
                                          {DType::q4_k, 128256, 4096},
                                          {DType::f16, 201088, 2880},
                                          {DType::q5_k, 32000, 8192},
                                          {DType::iq4_xs, 154880, 2048}}) {
    Random random(6);
    const DeviceBuffer table = uploaded(random_weight(spec.table, spec.vocab, spec.hidden, random));
    for (const std::int64_t tokens : tokens_of_steps) {
      std::vector<std::int32_t> numbers(static_cast<std::size_t>(tokens));
      std::ranges::generate(numbers, [&] { return random.below(static_cast<std::int32_t>(spec.vocab)); });
      numbers.front() = static_cast<std::int32_t>(spec.vocab - 1);
      numbers.back() = tokens > 1 ? EmbeddingRows::drawn_token(0) : numbers.back();
      const DeviceBuffer ids = uploaded(numbers);
      const DeviceBuffer drawn = uploaded(std::vector<std::int32_t>{static_cast<std::int32_t>(spec.vocab / 2)});
      elements += compare_rows<EmbeddingRows>(spec, tokens, spec.hidden, [&](float* out) {
        return EmbeddingRows::Args{.ids = ids.as<std::int32_t>(),
                                   .tokens = tokens,
                                   .table = table.data(),
                                   .scale = 1.5f,
                                   .out = out,
                                   .drawn = drawn.as<std::int32_t>()};
      });
    }
  }
  print_elements("embedding", elements);
}

}  // namespace
}  // namespace rocmforge::test::at_size_rows_test
