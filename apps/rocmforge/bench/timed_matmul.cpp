#include "bench/timed_matmul.h"

#include <algorithm>

#include "checks/inputs.h"
#include "checks/oracle.h"
#include "checks/problem.h"

namespace rocmforge::app {
namespace {

constexpr std::string_view input_purpose = "input of a measurement";

DeviceBuffer uploaded(Device& device, const void* data, std::size_t size_bytes) {
  DeviceBuffer buffer = device.allocate(size_bytes, input_purpose);
  device.upload(buffer.data(), data, size_bytes);
  return buffer;
}

/// One product of the first `tokens` rows of x.
void multiply(const MatmulKernel& kernel, const Matmul::Spec& spec, const void* weight, const float* x, std::int64_t tokens,
              void* workspace, float* out, ExecutionContext& context) {
  const MatmulOutput output{
      .dtype = spec.weight, .weight = weight, .n = spec.n, .out = out, .stride = spec.n, .accumulate = false};
  Matmul::Args args;
  args.x = x;
  args.tokens = tokens;
  args.k = spec.k;
  args.x_stride = spec.k;
  args.outputs = std::span(&output, 1);
  args.workspace = workspace;
  kernel.run(args, context);
}

}  // namespace

MatmulInputs::MatmulInputs(Device& device, ExecutionContext& context, const KernelRegistry& registry,
                           const Matmul::Spec& spec, std::int64_t max_tokens)
    : device_(device), context_(context), oracle_(oracle_on<Matmul>(registry, spec, device.info())), spec_(spec) {
  Random random(1);
  rows_ = random_weight(spec.weight, spec.n, spec.k, random);
  const std::vector<float> x = random.uniforms(max_tokens * spec.k, -1.0f, 1.0f);
  x_ = uploaded(device, x.data(), x.size() * sizeof(float));
}

std::span<const float> MatmulInputs::expected(std::int64_t tokens) {
  std::vector<float>& values = expected_[tokens];
  if (values.empty()) {
    const DeviceBuffer weight = uploaded(device_, rows_.data(), rows_.size());
    const DeviceBuffer workspace = device_.allocate(oracle_.workspace_bytes(tokens, spec_.k) + 1, input_purpose);
    values = output_of_call(device_, context_, tokens * spec_.n, [&](float* out) {
      multiply(oracle_, spec_, weight.data(), x(), tokens, workspace.data(), out, context_);
    });
  }
  return values;
}

WeightCopies::WeightCopies(Device& device, ExecutionContext& context, const MatmulKernel& kernel,
                           const MatmulInputs& inputs) {
  std::span<const std::byte> weight = inputs.rows();
  Device host;
  DeviceBuffer packed;  // of host
  if (const std::size_t packed_bytes = kernel.packed_bytes(inputs.spec()); packed_bytes > 0) {
    // Kernels may require alignment: pack into memory of the CPU device, as a model's loader does.
    packed = host.allocate(packed_bytes, "a packed weight");
    kernel.pack(inputs.spec(), weight.data(), packed.data(), context);
    weight = {packed.data(), packed.size_bytes()};
  }
  size_bytes_ = std::max(weight.size(), inputs.rows().size());
  const std::size_t cold =
      std::max<std::size_t>(std::size_t{256} << 20, static_cast<std::size_t>(4 * device.info().l2_bytes));
  const std::size_t count = std::clamp<std::size_t>(cold / size_bytes_ + 1, 2, 64);
  for (std::size_t i = 0; i < count; ++i) {
    copies_.push_back(uploaded(device, weight.data(), weight.size()));
  }
}

TimedMatmul::TimedMatmul(Device& device, ExecutionContext& context, const MatmulKernel& kernel, MatmulInputs& inputs,
                         const WeightCopies& weights, std::int64_t tokens)
    : CheckedCalls(device, context, tokens, inputs.spec().n, matmul_tolerance(inputs.spec().weight, false)),
      kernel_(kernel),
      inputs_(inputs),
      weights_(weights),
      tokens_(tokens),
      workspace_(scratch(kernel.workspace_bytes(tokens, inputs.spec().k))) {}

void TimedMatmul::run(int input) {
  multiply(kernel_, inputs_.spec(), weights_.copy(input), inputs_.x(), tokens_, workspace_, out(), context());
}

}  // namespace rocmforge::app
