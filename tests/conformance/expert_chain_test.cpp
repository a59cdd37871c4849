// Attention's output, a token's router, the products with its experts and the dense product that follows them on a stream,
// as in a decode step: a kernel may put them into one launch, and must give the bits of launches that each start after the
// one before.

#include <array>
#include <cstddef>
#include <vector>

#include "conformance/harness.h"

namespace rocmforge::test::expert_chain_test {
namespace {

/// The widths of a model with experts, and the formats of its weights.
struct Shape {
  std::int64_t hidden = 512;
  std::int64_t width = 512;  ///< of an expert
  std::int64_t experts = 5;
  std::int64_t used = 3;
  DType up = DType::q4_k;
  DType down = DType::q6_k;
  DType dense = DType::q4_k;
  bool routed = false;  ///< attention's output and the router come first
};

/// What a layer leaves behind. Each buffer is read by the product after the one that writes it.
struct Results {
  std::vector<float> gate, hidden, last, shares;
  std::vector<std::int32_t> ids;

  friend bool operator==(const Results& a, const Results& b) {
    return same_bits(a.gate, b.gate) && same_bits(a.hidden, b.hidden) && same_bits(a.last, b.last) &&
           same_bits(a.shares, b.shares) && a.ids == b.ids;
  }
};

class ExpertLayer {
 public:
  ExpertLayer(const ExpertMatmulKernel& experts, const MatmulKernel& dense, const RouteRowsKernel& router,
              const Shape& shape)
      : experts_(experts), dense_(dense), router_(router), shape_(shape) {}

  /// A dense product and the router where the shape has them; gate and up, down, and a dense product of the residual
  /// stream; `steps` times. The first product reads what the last one wrote.
  Results run(bool merge, int steps) {
    Place& place = harness().place_of(experts_);
    Arena arena(place);
    random_ = Random(9);
    auto* const hidden = arena.in_out(random_.normals(shape_.hidden));
    auto* const gate = arena.out<float>(shape_.used * shape_.width);
    auto* const last = arena.in_out(random_.normals(shape_.hidden));
    const std::array up{expert_weight(arena, shape_.up, shape_.width, shape_.hidden),
                        expert_weight(arena, shape_.up, shape_.width, shape_.hidden)};
    const std::array down{expert_weight(arena, shape_.down, shape_.hidden, shape_.width)};
    const MatmulOutput behind{
        .dtype = shape_.dense, .weight = dense_weight(arena), .n = shape_.hidden, .out = last, .stride = shape_.hidden};
    MatmulOutput output = behind;
    output.weight = dense_weight(arena);
    output.out = hidden;
    output.accumulate = true;
    std::vector<std::int32_t> chosen{4, 0, 2};
    chosen.resize(static_cast<std::size_t>(shape_.used));
    auto* const ids = arena.in_out(chosen);
    auto* const shares = arena.in_out(random_.uniforms(shape_.used, 0.1f, 1.0f));
    const float* const norm = arena.in(random_.uniforms(shape_.hidden, 0.5f, 1.5f));
    const RouteRows::Spec route{
        .route = {.experts = static_cast<std::int32_t>(shape_.experts), .used = static_cast<std::int32_t>(shape_.used)},
        .hidden = shape_.hidden};
    RouteRows::Args choice{.x = hidden, .norm = norm, .tokens = 1, .ids = ids, .weights = shares};
    choice.router = arena.in(random_.normals(shape_.experts * shape_.hidden));
    choice.normed = arena.out<float>(shape_.hidden);
    choice.workspace = arena.workspace(router_.workspace_bytes(route, 1));
    choice.state = arena.state(router_.state_bytes(route));
    ExpertMatmul::Args first{.x = shape_.routed ? choice.normed : hidden,
                             .tokens = 1,
                             .k = shape_.hidden,
                             .used = shape_.used,
                             .experts = shape_.experts,
                             .ids = ids,
                             .weights = up,
                             .out = gate};
    ExpertMatmul::Args second = first;
    second.x = gate;
    second.k = shape_.width;
    second.weights = down;
    second.shares = shares;
    second.out = hidden;
    if (place.device->is_gpu()) {
      place.device->stream().allow_merging(merge);
    }
    const std::int64_t earlier = place.device->driver().counters().launches;
    arena.run([&](ExecutionContext& context) {
      for (int step = 0; step < steps; ++step) {
        if (shape_.routed) {
          dense_.run({.x = last, .tokens = 1, .k = shape_.hidden, .x_stride = shape_.hidden, .outputs = {&output, 1}},
                     context);
          router_.run(route, choice, context);
        }
        experts_.run(first, context);
        experts_.run(second, context);
        Matmul::Args third{.x = hidden, .tokens = 1, .k = shape_.hidden, .x_stride = shape_.hidden, .outputs = {&behind, 1}};
        third.norm_weight = norm;
        third.norm_eps = 1e-5f;
        dense_.run(third, context);
      }
    });
    launches = place.device->driver().counters().launches - earlier;
    if (place.device->is_gpu()) {
      place.device->stream().allow_merging(false);
    }
    return {arena.read(gate, shape_.used * shape_.width), arena.read(hidden, shape_.hidden), arena.read(last, shape_.hidden),
            arena.read(shares, shape_.used), arena.read(ids, shape_.used)};
  }

  std::int64_t launches = 0;  ///< of the last run

 private:
  ExpertWeight expert_weight(Arena& arena, DType type, std::int64_t n, std::int64_t k) {
    const ExpertMatmul::Spec spec{type, shape_.experts, n, k, shape_.used, false};
    const std::vector<std::byte> rows = random_rows(type, shape_.experts * n, k, random_);
    const std::size_t bytes = rows.size() / static_cast<std::size_t>(shape_.experts);
    const std::size_t packed_bytes = experts_.packed_bytes(spec);
    std::vector<std::byte> packed(packed_bytes * static_cast<std::size_t>(shape_.experts));
    for (std::size_t e = 0; packed_bytes > 0 && e < static_cast<std::size_t>(shape_.experts); ++e) {
      experts_.pack(spec, rows.data() + e * bytes, packed.data() + e * packed_bytes, harness().host.context);
    }
    return {type, arena.in(packed.empty() ? rows : packed), n,
            static_cast<std::int64_t>(packed.empty() ? bytes : packed_bytes)};
  }

  const void* dense_weight(Arena& arena) {
    const Matmul::Spec spec{shape_.dense, shape_.hidden, shape_.hidden};
    const std::vector<std::byte> rows = random_rows(shape_.dense, shape_.hidden, shape_.hidden, random_);
    std::vector<std::byte> packed(dense_.packed_bytes(spec));
    if (packed.empty()) {
      return arena.in(rows);
    }
    dense_.pack(spec, rows.data(), packed.data(), harness().host.context);
    return arena.in(packed);
  }

  const ExpertMatmulKernel& experts_;
  const MatmulKernel& dense_;
  const RouteRowsKernel& router_;
  Shape shape_;
  Random random_{9};
};

/// The kernel named "amd" of an operation, which merges launches; null where the device has none.
template <class Operation>
const typename Operation::KernelInterface* amd_kernel() {
  for (const auto& kernel : harness().registry.all<Operation>()) {
    if (kernel->device() == harness().device.kind && kernel->name() == "amd") {
      return kernel.get();
    }
  }
  return nullptr;
}

class ExpertChainTiny : public testing::TestWithParam<Shape> {};

TEST_P(ExpertChainTiny, HasTheBitsOfSingleLaunches) {
  const auto* const experts = amd_kernel<ExpertMatmul>();
  const auto* const dense = amd_kernel<Matmul>();
  const auto* const router = amd_kernel<RouteRows>();
  if (!harness().is_gpu() || experts == nullptr || dense == nullptr || router == nullptr) {
    GTEST_SKIP() << "this device has no kernels that merge launches of experts";
  }
  ExpertLayer layer(*experts, *dense, *router, GetParam());
  const Results chained = layer.run(true, 2);
  const std::int64_t launches = layer.launches;
  EXPECT_EQ(chained, layer.run(false, 2));
  EXPECT_EQ(layer.launches, GetParam().routed ? 10 : 6);
  EXPECT_EQ(launches, harness().device.wave_size == 32 ? 2 : layer.launches);
}

// Halves of tiles serve the second and fifth shape's dense products; down of the third has one record a row.
INSTANTIATE_TEST_SUITE_P(
    Formats, ExpertChainTiny,
    testing::Values(Shape{}, Shape{.hidden = 1280, .up = DType::mxfp4, .down = DType::q4_0, .dense = DType::q4_0},
                    Shape{.width = 96, .up = DType::q8_0, .down = DType::q8_0, .dense = DType::q8_0},
                    Shape{.experts = 37, .used = 4, .routed = true},
                    Shape{.width = 32, .experts = 300, .down = DType::q4_0, .dense = DType::q4_0, .routed = true}),
    [](const testing::TestParamInfo<Shape>& test) {
      return std::string(name(test.param.up)) + "_" + std::string(name(test.param.down)) + "_" +
             std::string(name(test.param.dense)) + (test.param.routed ? "_routed" : "");
    });

}  // namespace
}  // namespace rocmforge::test::expert_chain_test
