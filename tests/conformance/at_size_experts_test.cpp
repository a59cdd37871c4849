// Products of experts at the sizes of real work, on a real GPU: every element of gate and up, and of down behind it, is
// compared with the plain kernel's (check). Outputs are poisoned, and each call runs in all
// situations.

#include <algorithm>
#include <cstdio>
#include <map>

#include "conformance/at_size.h"

namespace rocmforge::test::at_size_experts_test {
namespace {

/// The experts of a model that people run (tools/quant/synth_gguf.py).
struct Layer {
  std::string name;
  DType up = DType::q4_k;
  DType down = DType::q6_k;
  std::int64_t experts = 0;  ///< with shared ones
  std::int64_t used = 0;     ///< likewise
  std::int64_t shared = 0;
  std::int64_t width = 0;
  std::int64_t rows = 0;  ///< of gate and of up
  Activation activation = Activation::silu;
  bool biases = false;
};
void PrintTo(const Layer& layer, std::ostream* out) { *out << layer.name; }

std::vector<Layer> layers() {
  std::vector<Layer> all = {
      {"qwen3_30b_a3b", DType::q4_k, DType::q6_k, 128, 8, 0, 2048, 768},
      {"qwen3_5_35b_a3b", DType::q4_k, DType::q6_k, 257, 9, 1, 2048, 512},
      {"glm_4_7_flash", DType::q4_k, DType::q6_k, 65, 5, 1, 2048, 1536},
      {"gpt_oss_20b", DType::mxfp4, DType::mxfp4, 32, 4, 0, 2880, 2880, Activation::clamped_swiglu, true},
  };
  for (const DType dtype : {DType::q4_0, DType::q5_0, DType::q8_0, DType::q4_k, DType::q5_k, DType::q6_k, DType::iq4_nl,
                            DType::iq4_xs, DType::q3_k, DType::f16}) {
    all.push_back({"narrow_" + std::string(name(dtype)), dtype, dtype, 40, 6, 0, 1024, 512});
  }
  return all;
}

constexpr std::int64_t tokens_of_steps[] = {1,  2,  3,  4,  5,  7,   8,   9,   15,  16,  17,   31,
                                            32, 33, 48, 64, 65, 127, 128, 129, 256, 300, 1024, 4096};
/// Of products: the plain kernel takes a second for some 10^11.
constexpr std::int64_t most_products = std::int64_t{120} << 30;

/// Experts of one matrix are drawn from few, so that packing them is quick. Their number is prime: two experts that are
/// confused are different ones in most cases.
constexpr std::int64_t kinds = 13;

class Matrix {
 public:
  Matrix(DType dtype, std::int64_t experts, std::int64_t n, std::int64_t k, std::uint64_t seed, bool biases)
      : spec{dtype, experts, n, k, 0, false} {
    Random random(seed);
    const std::vector<std::byte> pool = random_rows(dtype, kinds * n, k, random);
    expert_bytes_ = pool.size() / kinds;
    for (std::int64_t kind = 0; kind < kinds; ++kind) {
      const auto first = pool.begin() + kind * static_cast<std::ptrdiff_t>(expert_bytes_);
      kinds_.emplace_back(first, first + static_cast<std::ptrdiff_t>(expert_bytes_));
    }
    if (biases) {
      biases_ = uploaded(random.normals(experts * n, 1.0f));
    }
  }

  ExpertMatmul::Spec spec;

  /// For a kernel that reads the file's rows, or that packs them.
  [[nodiscard]] ExpertWeight weight_for(const ExpertMatmulKernel& kernel) {
    const auto found = memory_.find(&kernel);
    DeviceBuffer& buffer = found != memory_.end() ? found->second : memory_.emplace(&kernel, packed(kernel)).first->second;
    ExpertWeight weight{spec.weight, buffer.data(), spec.n, static_cast<std::int64_t>(buffer.size_bytes()) / spec.experts};
    if (biases_.size_bytes() > 0) {
      weight.bias = biases_.as<float>();
      weight.bias_stride = spec.n;
    }
    return weight;
  }

 private:
  [[nodiscard]] DeviceBuffer packed(const ExpertMatmulKernel& kernel) const {
    std::vector<std::vector<std::byte>> each = kinds_;
    if (const std::size_t size_bytes = kernel.packed_bytes(spec); size_bytes > 0) {
      for (std::vector<std::byte>& one : each) {
        PoisonedBytes to(size_bytes);
        kernel.pack(spec, one.data(), to.data(), harness().host.context);
        one.assign(to.bytes().begin(), to.bytes().end());
      }
    }
    std::vector<std::byte> all;
    for (std::int64_t e = 0; e < spec.experts; ++e) {
      const std::vector<std::byte>& one = each[static_cast<std::size_t>(e % kinds)];
      all.insert(all.end(), one.begin(), one.end());
    }
    return uploaded(all);
  }

  std::size_t expert_bytes_ = 0;
  std::vector<std::vector<std::byte>> kinds_;
  DeviceBuffer biases_;
  std::map<const ExpertMatmulKernel*, DeviceBuffer> memory_;
};

/// A step's tokens: some experts are chosen by many, some by none.
struct Routing {
  Routing(const Layer& layer, std::int64_t tokens, std::uint64_t seed) {
    Random random(seed);
    const auto routed = static_cast<std::int32_t>(layer.experts - layer.shared);
    std::vector<std::int32_t> ids;
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::vector<std::int32_t> order = random.permutation(routed);
      if (t % 3 != 0) {  // a favourite, and never the last quarter
        std::erase_if(order, [&](std::int32_t e) { return e >= routed - routed / 4; });
        std::swap(order[0], *std::ranges::find(order, static_cast<std::int32_t>(t % 2)));
      }
      ids.insert(ids.end(), order.begin(), order.begin() + (layer.used - layer.shared));
      for (std::int64_t j = 0; j < layer.shared; ++j) {
        ids.push_back(static_cast<std::int32_t>(routed + j));
      }
    }
    ids_ = uploaded(ids);
    shares_ = uploaded(random.uniforms(tokens * layer.used, 0.1f, 1.0f));
  }
  DeviceBuffer ids_, shares_;
};

class ExpertsAtSize {
 public:
  explicit ExpertsAtSize(const Layer& layer)
      : layer_(layer),
        gate_(layer.up, layer.experts, layer.rows, layer.width, 41, layer.biases),
        up_(layer.up, layer.experts, layer.rows, layer.width, 42, layer.biases),
        down_(layer.down, layer.experts, layer.width, layer.rows, 43, layer.biases) {
    gate_.spec.used = up_.spec.used = down_.spec.used = layer.used;
  }

  void compare(std::int64_t tokens) {
    SCOPED_TRACE(testing::Message() << tokens << " tokens");
    tokens_ = tokens;
    const Routing routing(layer_, tokens, 51);
    routing_ = &routing;
    x_ = random_floats(tokens * layer_.width, 61);
    before_ = random_floats(tokens * layer_.width, 62);
    const ExpertMatmulKernel& plain = *harness().registry.choose<ExpertMatmul>(up_.spec, harness().device, "check").kernel;
    const Output hidden = hidden_output();
    run_plain(plain, true, x_, hidden);
    harness().for_each_kernel<ExpertMatmul>(up_.spec, [&](const ExpertMatmulKernel& kernel) {
      if (&kernel != &plain && kernel.supports(down_.spec, harness().device).ok) {
        compare(kernel, plain, hidden);
      }
    });
  }

  [[nodiscard]] std::int64_t elements() const { return elements_; }

 private:
  [[nodiscard]] std::int64_t slots() const { return tokens_ * layer_.used; }

  [[nodiscard]] Output hidden_output() const { return {DType::f32, slots() * layer_.rows / chunk, chunk}; }
  [[nodiscard]] Output down_output() const { return {DType::f32, tokens_ * layer_.width / chunk, chunk, &before_}; }

  void compare(const ExpertMatmulKernel& kernel, const ExpertMatmulKernel& plain, const Output& expected_hidden) {
    const Output hidden = hidden_output();
    const Output out = down_output();
    run(kernel, hidden, out);
    const Output expected = down_output();
    run_plain(plain, false, hidden.memory, expected);
    // An activation's product has two errors.
    expect_rows(hidden, expected_hidden, 4 * tolerance(layer_.up), std::string(kernel.name()) + ", gate and up");
    expect_rows(out, expected, 2 * tolerance(layer_.down), std::string(kernel.name()) + ", down");
    const std::int64_t compared = slots() * layer_.rows + tokens_ * layer_.width;
    note_compared(ExpertMatmul::name, kernel.name(), layer_.name + ", " + tokens_text(tokens_), compared);
    elements_ += compared;
  }

  [[nodiscard]] ExpertMatmul::Args arguments(bool down, const DeviceBuffer& x, const Output& out) const {
    ExpertMatmul::Args args;
    args.x = x.as<float>();
    args.tokens = tokens_;
    args.k = down ? layer_.rows : layer_.width;
    args.used = layer_.used;
    args.experts = layer_.experts;
    args.shared = layer_.shared;
    args.ids = routing_->ids_.as<std::int32_t>();
    args.shares = routing_->shares_.as<float>();
    args.out = out.memory.as<float>();
    args.activation = layer_.activation;
    return args;
  }

  /// One of the two calls.
  void run_plain(const ExpertMatmulKernel& plain, bool up, const DeviceBuffer& x, const Output& out) {
    Stream& stream = harness().target.device->stream();
    out.reset(stream);
    ExpertMatmul::Args args = arguments(!up, x, out);
    const std::vector<ExpertWeight> weights =
        up ? std::vector{gate_.weight_for(plain), up_.weight_for(plain)} : std::vector{down_.weight_for(plain)};
    args.weights = weights;
    plain.run(args, harness().target.context);
    stream.synchronize();
  }

  /// Both calls, as a model makes them: down uses what gate and up have left.
  void run(const ExpertMatmulKernel& kernel, const Output& hidden, const Output& out) {
    const DeviceBuffer workspace =
        poisoned_buffer(std::max(kernel.workspace_bytes(up_.spec, tokens_), kernel.workspace_bytes(down_.spec, tokens_)));
    const DeviceBuffer order =
        poisoned_buffer(std::max(kernel.order_bytes(up_.spec, tokens_), kernel.order_bytes(down_.spec, tokens_)));
    const std::vector<ExpertWeight> ups = {gate_.weight_for(kernel), up_.weight_for(kernel)};
    const std::vector<ExpertWeight> downs = {down_.weight_for(kernel)};
    ExpertMatmul::Args first = arguments(false, x_, hidden);
    first.weights = ups;
    ExpertMatmul::Args second = arguments(true, hidden.memory, out);
    second.weights = downs;
    second.before = {layer_.width, layer_.up, true};
    for (ExpertMatmul::Args* args : {&first, &second}) {
      args->workspace = workspace.data();
      args->order = order.data();
    }
    run_in_all_situations({&hidden, &out}, kernel.name(), [&] {
      kernel.run(first, harness().target.context);
      kernel.run(second, harness().target.context);
    });
  }

  Layer layer_;
  Matrix gate_, up_, down_;
  std::int64_t tokens_ = 0;
  const Routing* routing_ = nullptr;
  DeviceBuffer x_, before_;
  std::int64_t elements_ = 0;
};

class ExpertsOfModels : public testing::TestWithParam<Layer> {};

TEST_P(ExpertsOfModels, AreRightInEveryElement) {
  const Layer& layer = GetParam();
  ExpertsAtSize problem(layer);
  for (const std::int64_t tokens : tokens_of_steps) {
    if (tokens * layer.used * layer.rows * layer.width * 2 <= most_products) {
      problem.compare(tokens);
    }
  }
  std::printf("%s: %lld elements compared\n", layer.name.c_str(), static_cast<long long>(problem.elements()));
}

INSTANTIATE_TEST_SUITE_P(HugeLayers, ExpertsOfModels, testing::ValuesIn(layers()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace rocmforge::test::at_size_experts_test
