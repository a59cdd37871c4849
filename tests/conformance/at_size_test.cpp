// Attention and products at the sizes of real work, on a real GPU: every element is compared with the plain kernels'
// (check), which the other tests compare with the reference. Outputs are poisoned, and each call runs in all situations.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "base/half.h"
#include "checks/inputs.h"
#include "checks/model_shapes.h"
#include "conformance/at_size.h"
#include "conformance/attention_cases.h"

namespace rocmforge::test::at_size_test {
namespace {

constexpr std::int64_t most_workspace_bytes = std::int64_t{8} << 30;

// ---- attention

/// A layer of a model with pages of one type.
struct Layer {
  std::string name;
  Attention::Spec spec;
};
void PrintTo(const Layer& layer, std::ostream* out) { *out << layer.name; }

std::vector<Layer> layers() {
  std::vector<Layer> all;
  for (const ModelAttention& layer : attention_of_models()) {
    for (const DType dtype : {DType::f16, DType::bf16, DType::q8_0}) {
      all.push_back({layer.model + "_" + std::string(name(dtype)), layer.spec});
      all.back().spec.kv_dtype = dtype;
    }
  }
  return all;
}

/// A step's q, pages and arrays in device memory, without a pattern.
class AttentionAtSize {
 public:
  AttentionAtSize(const Attention::Spec& spec, const KvLayout& layout, const StepShape& step)
      : AttentionAtSize(spec, layout, step, Random(5)) {}

  /// False where the kernel needs more scratch memory than there is.
  [[nodiscard]] bool fits(const AttentionBackend& kernel) const {
    return kernel.workspace_bytes(spec_, limits_) <= static_cast<std::size_t>(most_workspace_bytes);
  }

  [[nodiscard]] Output output() const { return {spec_.io_dtype, rows(), spec_.out_dim()}; }

  /// Memory of one kernel's calls.
  struct Memory {
    DeviceBuffer workspace;
    DeviceBuffer state;
  };
  [[nodiscard]] Memory memory_for(const AttentionBackend& kernel) const {
    const std::size_t state_bytes = std::max<std::size_t>(kernel.state_bytes(spec_, limits_), 1);
    return {poisoned_buffer(kernel.workspace_bytes(spec_, limits_)),
            harness().target.device->allocate(state_bytes, "a test's counters")};
  }

  void run(const AttentionBackend& kernel, const Memory& memory, const Output& out) const {
    Attention::Args args;
    args.q = q_.data();
    args.q_stride = q_width();
    args.cache = {pages_.data(), num_blocks_};
    args.batch = arrays_.batch();
    args.sinks = spec_.sinks ? sinks_.as<float>() : nullptr;
    args.out = out.memory.data();
    args.workspace = memory.workspace.data();
    args.state = memory.state.data();
    kernel.run(spec_, layout_, args, harness().target.context);
  }

  /// Rows of one head.
  [[nodiscard]] std::int64_t rows() const { return arrays_.tokens() * spec_.q_heads; }

 private:
  AttentionAtSize(const Attention::Spec& spec, const KvLayout& layout, const StepShape& step, Random random)
      : AttentionAtSize(spec, layout, paged_step(step.sequences, layout.block_tokens, random), random) {}

  AttentionAtSize(const Attention::Spec& spec, const KvLayout& layout, PagedStep step, Random& random)
      : spec_(spec), layout_(layout), arrays_(std::move(step.plan)) {
    const RaggedBatch batch = arrays_.plan().view();
    limits_.max_kv_len = batch.max_kv_len;
    limits_.max_tokens = batch.num_tokens;
    limits_.max_sequences = batch.num_sequences;
    fill_pages(step.num_blocks);
    Stream& stream = harness().target.device->stream();
    q_ = poisoned_buffer(row_bytes(spec.io_dtype, arrays_.tokens() * q_width()));
    fill_random(stream, q_.data(), spec.io_dtype, arrays_.tokens() * q_width(), 11, 1.5f);
    if (spec.sinks) {
      sinks_ = uploaded(random.normals(spec.q_heads, 2.0f));
    }
  }

  [[nodiscard]] std::int64_t q_width() const { return std::int64_t{spec_.q_heads} * spec_.head_dim; }

  void fill_pages(std::int64_t num_blocks) {
    num_blocks_ = num_blocks;
    Stream& stream = harness().target.device->stream();
    pages_ = poisoned_buffer(static_cast<std::size_t>(num_blocks) * layout_.block_bytes());
    if (!layout_.dtype.is_quantised()) {
      fill_random(stream, pages_.data(), layout_.dtype.k, num_blocks * layout_.block_elems(), 7, 1.5f);
      return;
    }
    // One head of a block: quants, then their scales.
    constexpr std::int64_t pool_count = 64;
    const std::size_t head_bytes = layout_.head_bytes();
    std::vector<std::uint8_t> pool(head_bytes * pool_count);
    Random random(9);
    for (std::size_t at = 0; at < pool.size(); ++at) {
      pool[at] = static_cast<std::uint8_t>(random.bits());
    }
    for (std::size_t head = 0; head < pool_count; ++head) {
      for (std::size_t at = static_cast<std::size_t>(layout_.head_elems()); at < head_bytes; at += 2) {
        const std::uint16_t scale = float_to_half(random.uniform(0.005f, 0.02f));
        std::memcpy(pool.data() + head * head_bytes + at, &scale, 2);
      }
    }
    const DeviceBuffer pool_memory = uploaded(pool);
    fill_blocks(stream, pages_.data(), pool_memory.data(), num_blocks * layout_.planes(), pool_count,
                static_cast<std::int64_t>(head_bytes), 3);
    stream.synchronize();
  }

  Attention::Spec spec_;
  KvLayout layout_;
  StepArrays arrays_;
  AttentionLimits limits_;
  std::int64_t num_blocks_ = 0;
  DeviceBuffer q_, pages_, sinks_;
};

class AttentionOfModels : public testing::TestWithParam<Layer> {};

TEST_P(AttentionOfModels, IsRightInEveryRow) {
  std::int64_t elements = 0;
  for (const StepShape& step : steps_of_servers()) {
    Attention::Spec spec = GetParam().spec;
    spec.most_rows =
        std::ranges::all_of(step.sequences, [](const SequenceShape& shape) { return shape.q_len == 1; }) ? 1 : 0;
    SCOPED_TRACE(step.name);
    const AttentionBackend& plain = *harness().registry.choose<Attention>(spec, harness().device, "check").kernel;
    const AttentionAtSize problem(spec, plain.layout(spec), step);
    const Output expected = problem.output();
    problem.run(plain, problem.memory_for(plain), expected);
    harness().target.device->stream().synchronize();
    harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
      if (&kernel == &plain || !problem.fits(kernel)) {
        return;
      }
      const Output out = problem.output();
      const AttentionAtSize::Memory memory = problem.memory_for(kernel);
      run_in_all_situations({&out}, kernel.name(), [&] { problem.run(kernel, memory, out); });
      expect_rows(out, expected, attention_tolerance(spec, kernel.device()), kernel.name());
      const std::int64_t compared = problem.rows() * spec.out_dim();
      note_compared(Attention::name, kernel.name(), to_string(spec) + ", " + step.name, compared);
      elements += compared;
    });
  }
  std::printf("%s: %lld elements compared\n", GetParam().name.c_str(), static_cast<long long>(elements));
}

INSTANTIATE_TEST_SUITE_P(HugeLayers, AttentionOfModels, testing::ValuesIn(layers()),
                         [](const auto& test) { return test.param.name; });

// ---- products

constexpr std::int64_t tokens_of_steps[] = {1, 2, 3, 5, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 300, 2048};

class MatmulOfModels : public testing::TestWithParam<DType> {};

DeviceBuffer packed_for(const MatmulKernel& kernel, const Matmul::Spec& spec, const std::vector<std::byte>& rows) {
  const std::size_t size_bytes = kernel.packed_bytes(spec);
  if (size_bytes == 0) {
    return uploaded(rows);
  }
  PoisonedBytes packed(size_bytes);
  kernel.pack(spec, rows.data(), packed.data(), harness().host.context);
  return uploaded(std::vector<std::byte>(packed.bytes().begin(), packed.bytes().end()));
}

void multiply(const MatmulKernel& kernel, const Matmul::Spec& spec, const DeviceBuffer& weight, const DeviceBuffer& x,
              std::int64_t tokens, const DeviceBuffer& workspace, const Output& out) {
  const std::vector<MatmulOutput> outputs = {
      {.dtype = spec.weight, .weight = weight.data(), .n = spec.n, .out = out.memory.as<float>(), .stride = spec.n}};
  Matmul::Args args;
  args.x = x.as<float>();
  args.tokens = tokens;
  args.k = spec.k;
  args.x_stride = spec.k;
  args.outputs = outputs;
  args.workspace = workspace.data();
  kernel.run(args, harness().target.context);
}

TEST_P(MatmulOfModels, IsRightInEveryElement) {
  Device& device = *harness().target.device;
  std::int64_t elements = 0;
  for (const WeightShape& shape : weights_of_models()) {
    const Matmul::Spec spec{GetParam(), shape.n, shape.k};
    if (shape.k % info(spec.weight).block_elems != 0) {
      continue;
    }
    Random random(21);
    const std::vector<std::byte> rows = random_weight(spec.weight, shape.n, shape.k, random);
    const DeviceBuffer file_rows = uploaded(rows);
    const MatmulKernel& plain = *harness().registry.choose<Matmul>(spec, harness().device, "check").kernel;
    const DeviceBuffer x = random_floats(2048 * shape.k, 31);
    std::map<const MatmulKernel*, DeviceBuffer> weights;
    for (const std::int64_t tokens : tokens_of_steps) {
      if (tokens * shape.n > std::int64_t{40} << 20) {
        continue;  // the plain kernel would take seconds
      }
      SCOPED_TRACE(testing::Message() << tokens << " tokens");
      const auto output = [&] { return Output(DType::f32, tokens * shape.n / chunk, chunk); };
      const auto workspace_for = [&](const MatmulKernel& kernel) {
        return poisoned_buffer(kernel.workspace_bytes(tokens, spec.k));
      };
      const Output expected = output();
      multiply(plain, spec, file_rows, x, tokens, workspace_for(plain), expected);
      device.stream().synchronize();
      harness().for_each_kernel<Matmul>(spec, [&](const MatmulKernel& kernel) {
        if (&kernel == &plain) {
          return;
        }
        if (!weights.contains(&kernel)) {
          weights.emplace(&kernel, packed_for(kernel, spec, rows));
        }
        const Output out = output();
        const DeviceBuffer workspace = workspace_for(kernel);
        run_in_all_situations({&out}, kernel.name(),
                              [&] { multiply(kernel, spec, weights.at(&kernel), x, tokens, workspace, out); });
        expect_rows(out, expected, tolerance(spec.weight), kernel.name());
        note_compared(Matmul::name, kernel.name(), to_string(spec) + ", " + tokens_text(tokens), tokens * shape.n);
        elements += tokens * shape.n;
      });
    }
  }
  std::printf("%s: %lld elements compared\n", std::string(name(GetParam())).c_str(), static_cast<long long>(elements));
}

/// From 9 tokens on a token's outputs do not depend on the number of tokens, as far as one kind of kernel serves them: up to
/// 128 where a weight has few rows, any number where it has many.
TEST(HugeMatmulInvariance, ATokenHasTheSameBitsWithAnyNumberOfTokens) {
  constexpr std::int64_t compared = 9;
  for (const auto& [n, k] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {28672, 4096}, {14336, 4096}, {128256, 2048}, {4096, 14336}, {4096, 4096}, {8192, 8192}}) {
    for (const DType type : {DType::q4_k, DType::q8_0}) {
      const Matmul::Spec spec{type, n, k};
      const auto chosen = harness().registry.candidates<Matmul>(spec, harness().device);
      const auto hopper = std::ranges::find(chosen.able, "hopper", [](const auto* kernel) { return kernel->name(); });
      if (hopper == chosen.able.end()) {
        GTEST_SKIP() << "for Hopper's products";
      }
      Random random(22);
      const DeviceBuffer weight = packed_for(**hopper, spec, random_weight(type, n, k, random));
      const DeviceBuffer x = random_floats(300 * k, 32);
      std::vector<float> first;
      for (const std::int64_t tokens : {9, 16, 17, 32, 33, 64, 65, 128, 300}) {
        if (tokens > 128 && n < 12288) {
          continue;
        }
        const Output out(DType::f32, tokens * n / chunk, chunk);
        const DeviceBuffer workspace = poisoned_buffer((*hopper)->workspace_bytes(tokens, k));
        multiply(**hopper, spec, weight, x, tokens, workspace, out);
        harness().target.device->stream().synchronize();
        std::vector<float> rows(static_cast<std::size_t>(compared * n));
        harness().target.device->download(rows.data(), out.memory.data(), rows.size() * sizeof(float));
        first = first.empty() ? rows : first;
        EXPECT_EQ(std::memcmp(rows.data(), first.data(), rows.size() * sizeof(float)), 0)
            << to_string(spec) << ", " << tokens << " tokens";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(HugeFormats, MatmulOfModels, testing::ValuesIn(computing_types()),
                         [](const auto& test) { return std::string(name(test.param)); });

}  // namespace
}  // namespace rocmforge::test::at_size_test
