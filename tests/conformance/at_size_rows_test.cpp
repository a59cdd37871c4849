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

// Blocks of weights, and latent rows of a KV cache.
TEST(HugeRows, Dequantize) {
  std::int64_t elements = 0;
  std::int64_t normed = 0;
  constexpr std::int64_t width = 4096;
  for (const DType type : computing_types()) {
    Random random(7);
    for (const std::int64_t rows : {1, 32, 2048}) {
      const DeviceBuffer blocks = uploaded(random_weight(type, rows, width, random));
      elements += compare_rows<Dequantize>({type}, rows, width, [&](float* out) {
        return Dequantize::Args{.rows = blocks.data(), .count = rows * width, .out = out};
      });
      const DeviceBuffer weight = random_floats(width, 8);
      normed += compare_rows<DequantizeRmsNorm>({type, width, 1e-5f}, rows, width, [&](float* out) {
        return DequantizeRmsNorm::Args{
            .rows = blocks.data(), .num_rows = rows, .weight = weight.as<float>(), .out = out};
      });
    }
  }
  print_elements("dequantize", elements);
  print_elements("dequantize_rms_norm", normed);
}

// Of Gemma 3n E2B and E4B.
TEST(HugeRows, CutRows) {
  std::int64_t elements = 0;
  for (const CutRows::Spec& spec : {CutRows::Spec{8192, 1.6448536f}, {16384, 1.6448536f}}) {
    for (const std::int64_t tokens : {1, 3, 32, 257, 2048}) {
      // Gates with their values behind them, which stay.
      const DeviceBuffer before = random_floats(tokens * 2 * spec.width, 1, 2.0f);
      elements += compare_rows<CutRows>(
          spec, 2 * tokens, spec.width,
          [&](float* out) { return CutRows::Args{.x = out, .rows = tokens, .stride = 2 * spec.width}; }, &before);
    }
  }
  print_elements("cut_rows", elements);
}

TEST(HugeRows, MixStreams) {
  std::int64_t elements = 0;
  constexpr std::int64_t dim = 2048;
  constexpr std::int64_t streams = MixStreams::streams;
  for (const MixStreams::Inputs inputs :
       {MixStreams::Inputs::streams, MixStreams::Inputs::and_row, MixStreams::Inputs::matched}) {
    const MixStreams::Spec spec{dim, inputs};
    const DeviceBuffer base = random_floats(streams * spec.columns(), 2);
    const DeviceBuffer coefs = random_floats(streams * spec.columns() * streams, 3);
    const DeviceBuffer factors = random_floats(dim, 4);
    for (const std::int64_t tokens : {1, 3, 32, 257, 2048}) {
      const DeviceBuffer x = random_floats(tokens * streams * dim, 5);
      const DeviceBuffer row = random_floats(tokens * dim, 6, 3.0f);
      const DeviceBuffer logits = random_floats(tokens * streams, 7);
      const auto make = [&] {
        std::vector<Output> outputs;
        outputs.emplace_back(DType::f32, tokens * streams, dim, &x);
        outputs.emplace_back(DType::f32, tokens, dim);
        return outputs;
      };
      const auto call = [&](const OpKernel<MixStreams>& kernel, const std::vector<Output>& outputs) {
        const MixStreams::Args args{.x = outputs[0].memory.as<float>(),
                                    .row = spec.has_row() ? row.as<float>() : nullptr,
                                    .logits = logits.as<float>(),
                                    .base = base.as<float>(),
                                    .coefs = coefs.as<float>(),
                                    .tokens = tokens,
                                    .first = outputs[1].memory.as<float>(),
                                    .factors = factors.as<float>()};
        return [&kernel, spec, args] { kernel.run(spec, args, harness().target.context); };
      };
      elements += compare_with_plain<MixStreams>(spec, make, call, [&](const auto& actual, const auto& expected, auto kernel) {
        expect_rows(actual[0], expected[0], tolerance(DType::f32), kernel);
        expect_rows(actual[1], expected[1], tolerance(DType::f32), kernel);
        return tokens * (streams + 1) * dim;
      });
    }
  }
  print_elements("mix_streams", elements);
}

}  // namespace
}  // namespace rocmforge::test::at_size_rows_test
