// A token's products with its experts and the dense product that follows them on a stream, as in a decode step: a kernel may
// put them into one launch, and must give the bits of launches that each start after the one before.

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
};

/// What a layer leaves behind. Each buffer is read by the product after the one that writes it.
struct Results {
  std::vector<float> gate, hidden, last;

  friend bool operator==(const Results& a, const Results& b) {
    return same_bits(a.gate, b.gate) && same_bits(a.hidden, b.hidden) && same_bits(a.last, b.last);
  }
};

class ExpertLayer {
 public:
  ExpertLayer(const ExpertMatmulKernel& experts, const MatmulKernel& dense, const Shape& shape)
      : experts_(experts), dense_(dense), shape_(shape) {}

  /// Gate and up, down, and a dense product of the residual stream, `steps` times.
  Results run(bool merge, int steps) {
    Place& place = harness().place_of(experts_);
    Arena arena(place);
    random_ = Random(9);
    auto* const hidden = arena.in_out(random_.normals(shape_.hidden));
    auto* const gate = arena.out<float>(shape_.used * shape_.width);
    auto* const last = arena.out<float>(shape_.hidden);
    const std::array up{expert_weight(arena, shape_.up, shape_.width, shape_.hidden),
                        expert_weight(arena, shape_.up, shape_.width, shape_.hidden)};
    const std::array down{expert_weight(arena, shape_.down, shape_.hidden, shape_.width)};
    const MatmulOutput behind{
        .dtype = shape_.dense, .weight = dense_weight(arena), .n = shape_.hidden, .out = last, .stride = shape_.hidden};
    ExpertMatmul::Args first{.x = hidden,
                             .tokens = 1,
                             .k = shape_.hidden,
                             .used = shape_.used,
                             .experts = shape_.experts,
                             .ids = arena.in(std::vector<std::int32_t>{4, 0, 2}),
                             .weights = up,
                             .out = gate};
    ExpertMatmul::Args second = first;
    second.x = gate;
    second.k = shape_.width;
    second.weights = down;
    second.shares = arena.in(random_.uniforms(shape_.used, 0.1f, 1.0f));
    second.out = hidden;
    const float* const norm = arena.in(random_.uniforms(shape_.hidden, 0.5f, 1.5f));
    if (place.device->is_gpu()) {
      place.device->stream().allow_merging(merge);
    }
    const std::int64_t before = place.device->driver().counters().launches;
    arena.run([&](ExecutionContext& context) {
      for (int step = 0; step < steps; ++step) {
        experts_.run(first, context);
        experts_.run(second, context);
        Matmul::Args third{.x = hidden, .tokens = 1, .k = shape_.hidden, .x_stride = shape_.hidden, .outputs = {&behind, 1}};
        third.norm_weight = norm;
        third.norm_eps = 1e-5f;
        dense_.run(third, context);
      }
    });
    launches = place.device->driver().counters().launches - before;
    if (place.device->is_gpu()) {
      place.device->stream().allow_merging(false);
    }
    return {arena.read(gate, shape_.used * shape_.width), arena.read(hidden, shape_.hidden),
            arena.read(last, shape_.hidden)};
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
  if (!harness().is_gpu() || experts == nullptr || dense == nullptr) {
    GTEST_SKIP() << "this device has no kernels that merge launches of experts";
  }
  ExpertLayer layer(*experts, *dense, GetParam());
  const Results chained = layer.run(true, 2);
  const std::int64_t launches = layer.launches;
  EXPECT_EQ(chained, layer.run(false, 2));
  EXPECT_EQ(layer.launches, 6);
  EXPECT_EQ(launches, harness().device.wave_size == 32 ? 2 : 6);
}

// Halves of tiles serve the second shape's dense product; down of the third has one record a row.
INSTANTIATE_TEST_SUITE_P(
    Formats, ExpertChainTiny,
    testing::Values(Shape{}, Shape{.hidden = 1280, .up = DType::mxfp4, .down = DType::q4_0, .dense = DType::q4_0},
                    Shape{.width = 96, .up = DType::q8_0, .down = DType::q8_0, .dense = DType::q8_0}),
    [](const testing::TestParamInfo<Shape>& test) {
      return std::string(name(test.param.up)) + "_" + std::string(name(test.param.down)) + "_" +
             std::string(name(test.param.dense));
    });

}  // namespace
}  // namespace rocmforge::test::expert_chain_test
