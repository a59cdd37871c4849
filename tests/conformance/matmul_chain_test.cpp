// Products of one token that follow each other on a stream, as in a decode step: a kernel may put several into one launch,
// and must give the bits of launches that each start after the one before.

#include <algorithm>
#include <array>
#include <optional>

#include "conformance/harness.h"

namespace rocmforge::test {
namespace {

/// The widths of a model, and the formats of its weights.
struct Shape {
  std::int64_t hidden = 512;
  std::int64_t heads = 768;
  std::int64_t ffn = 1280;
  DType base = DType::q4_0;
  DType better = DType::q4_0;  ///< of V and down
  bool norms_behind = false;   ///< attention's output and down are normalised before they are added to the stream
};

/// What a layer leaves behind. Each buffer is read by the product after the one that writes it.
struct Results {
  std::vector<float> hidden, gate, qkv, last;

  friend bool operator==(const Results& a, const Results& b) {
    return same_bits(a.hidden, b.hidden) && same_bits(a.gate, b.gate) && same_bits(a.qkv, b.qkv) &&
           same_bits(a.last, b.last);
  }
};

class Layer {
 public:
  Layer(const MatmulKernel& kernel, const Shape& shape) : kernel_(kernel), shape_(shape) {}

  /// Attention's output, gate and up, down, the next layer's Q, K and V, and a product behind these, `steps` times.
  Results run(bool merge, int steps) {
    Place& place = harness().place_of(kernel_);
    Arena arena(place);
    random_ = Random(7);
    auto* hidden = arena.in_out(random_.normals(shape_.hidden));
    const float* attended = arena.in(random_.normals(shape_.heads));
    auto* gate = arena.out<float>(shape_.ffn);
    auto* qkv = arena.out<float>(shape_.heads + 128);
    auto* last = arena.out<float>(shape_.hidden);
    auto* projected = arena.out<float>(shape_.hidden);
    const float* norm = arena.in(random_.uniforms(shape_.hidden, 0.5f, 1.5f));
    const auto weight = [&](DType type, std::int64_t n, std::int64_t k) { return weight_of(arena, type, n, k); };
    const MatmulOutput out{.dtype = shape_.base,
                           .weight = weight(shape_.base, shape_.hidden, shape_.heads),
                           .n = shape_.hidden,
                           .out = shape_.norms_behind ? projected : hidden,
                           .stride = shape_.hidden,
                           .accumulate = !shape_.norms_behind};
    const std::array up{
        MatmulOutput{.dtype = shape_.base,
                     .weight = weight(shape_.base, shape_.ffn, shape_.hidden),
                     .n = shape_.ffn,
                     .out = gate,
                     .stride = shape_.ffn},
        MatmulOutput{.dtype = shape_.base, .weight = weight(shape_.base, shape_.ffn, shape_.hidden), .n = shape_.ffn}};
    const MatmulOutput down{.dtype = shape_.better,
                            .weight = weight(shape_.better, shape_.hidden, shape_.ffn),
                            .n = shape_.hidden,
                            .out = shape_.norms_behind ? projected : hidden,
                            .stride = shape_.hidden,
                            .accumulate = !shape_.norms_behind};
    const std::array three{MatmulOutput{.dtype = shape_.base,
                                        .weight = weight(shape_.base, shape_.heads, shape_.hidden),
                                        .n = shape_.heads,
                                        .out = qkv,
                                        .stride = shape_.heads + 128},
                           MatmulOutput{.dtype = shape_.better,
                                        .weight = weight(shape_.better, 128, shape_.hidden),
                                        .n = 128,
                                        .out = qkv + shape_.heads,
                                        .stride = shape_.heads + 128}};
    const MatmulOutput behind{.dtype = shape_.base,
                              .weight = weight(shape_.base, shape_.hidden, shape_.heads),
                              .n = shape_.hidden,
                              .out = last,
                              .stride = shape_.hidden};
    if (place.device->is_gpu()) {
      place.device->stream().allow_merging(merge);
    }
    const std::int64_t before = place.device->driver().counters().launches;
    arena.run([&](ExecutionContext& context) {
      for (int step = 0; step < steps; ++step) {
        call(context, attended, shape_.heads, {&out, 1});
        add_normed(context, projected, norm, hidden);
        call(context, hidden, shape_.hidden, up, norm, true);
        call(context, gate, shape_.ffn, {&down, 1});
        add_normed(context, projected, norm, hidden);
        call(context, hidden, shape_.hidden, three, norm);
        call(context, qkv, shape_.heads, {&behind, 1});
      }
    });
    launches = place.device->driver().counters().launches - before;
    if (place.device->is_gpu()) {
      place.device->stream().allow_merging(false);
    }
    return {arena.read(hidden, shape_.hidden), arena.read(gate, shape_.ffn), arena.read(qkv, shape_.heads + 128),
            arena.read(last, shape_.hidden)};
  }

  std::int64_t launches = 0;  ///< of the last run

 private:
  const void* weight_of(Arena& arena, DType type, std::int64_t n, std::int64_t k) {
    const Matmul::Spec spec{type, n, k};
    const std::vector<std::byte> rows = random_rows(type, n, k, random_);
    std::vector<std::byte> packed(kernel_.packed_bytes(spec));
    if (packed.empty()) {
      return arena.in(rows);
    }
    kernel_.pack(spec, rows.data(), packed.data(), harness().host.context);
    return arena.in(packed);
  }

  void call(ExecutionContext& context, const float* x, std::int64_t k, std::span<const MatmulOutput> outputs,
            const float* norm = nullptr, bool gated = false) {
    Matmul::Args args{.x = x, .tokens = 1, .k = k, .x_stride = k, .outputs = outputs};
    args.norm_weight = norm;
    args.norm_eps = 1e-5f;
    args.gated = gated;
    kernel_.run(args, context);
  }

  /// Where norms stand behind the products.
  void add_normed(ExecutionContext& context, const float* projected, const float* weight, float* hidden) const {
    if (!shape_.norms_behind) {
      return;
    }
    for (const auto& norm : harness().registry.all<RmsNorm>()) {
      if (norm->device() == harness().device.kind && norm->name() == "gpu") {
        norm->run({.dim = shape_.hidden},
                  {.x = projected, .rows = 1, .weight = weight, .out = hidden, .residual = hidden, .factor = 0.5f, .scale = 0.75f},
                  context);
      }
    }
  }

  const MatmulKernel& kernel_;
  Shape shape_;
  Random random_{7};
};

class MatmulChainTiny : public testing::TestWithParam<Shape> {};

TEST_P(MatmulChainTiny, HasTheBitsOfSingleLaunches) {
  const Shape& shape = GetParam();
  int kernels = 0;
  for (const auto& kernel : harness().registry.all<Matmul>()) {
    const MatmulFusions fusions = kernel->fusions();
    const auto serves = [&](DType type) { return kernel->supports({type, 128, 512}, harness().device).ok; };
    if (kernel->device() != harness().device.kind || !harness().is_gpu() || !serves(shape.base) || !serves(shape.better) ||
        std::min(fusions.norm_tokens, fusions.gate_tokens) == 0 || kernel->workspace_bytes(1, shape.ffn) > 0) {
      continue;
    }
    SCOPED_TRACE(std::string(kernel->name()));
    Layer layer(*kernel, shape);
    const Results chained = layer.run(true, 2);
    const std::int64_t launches = layer.launches;
    EXPECT_EQ(chained, layer.run(false, 2));
    EXPECT_EQ(layer.launches, shape.norms_behind ? 14 : 10);
    if (kernel->name() == "amd" && harness().device.wave_size == 32) {
      EXPECT_LE(launches, shape.norms_behind ? 3 : 5);
    }
    ++kernels;
  }
  if (kernels == 0) {
    GTEST_SKIP() << "no kernel of this device takes norms and activations into such products";
  }
}

// Norms of 288 and of 1,664 loads: the second takes more threads than a work-group of a chain has, and goes on behind the
// loads that it keeps.
INSTANTIATE_TEST_SUITE_P(
    Formats, MatmulChainTiny,
    testing::Values(Shape{}, Shape{.base = DType::q4_k, .better = DType::q6_k},
                    Shape{.ffn = 4352, .base = DType::q4_0, .better = DType::q8_0},
                    Shape{.hidden = 1152, .heads = 256, .ffn = 288, .norms_behind = true},
                    Shape{.hidden = 6656, .heads = 256, .ffn = 256, .base = DType::q4_k, .better = DType::q6_k, .norms_behind = true}),
    [](const testing::TestParamInfo<Shape>& test) {
      return std::string(name(test.param.base)) + "_" + std::string(name(test.param.better)) + "_" +
             std::to_string(test.param.ffn) + (test.param.norms_behind ? "_norms" : "");
    });

}  // namespace
}  // namespace rocmforge::test
