// RoPE and the append of K, V and latent rows to pages at the sizes of real work, on a real GPU: every element of the rows
// and of the pages is compared with the plain kernels' (check). Pages are poisoned, and each call runs in all situations.

#include <algorithm>
#include <cmath>

#include "checks/model_shapes.h"
#include "checks/problem.h"
#include "conformance/at_size.h"

namespace rocmforge::test::at_size_pages_test {
namespace {

/// Q8_0 pages are compared on the processor.
constexpr std::int64_t most_quant_bytes = std::int64_t{16} << 20;

/// The layout that all kernels of GPUs share.
KvLayout layout_for(Attention::Spec spec, DType dtype) {
  spec.kv_dtype = dtype;
  return harness().registry.choose<Attention>(spec, harness().device, "check").kernel->layout(spec);
}

/// A layer of a model with pages of one type.
template <class Spec>
struct Layer {
  std::string name;
  Spec spec;
  Attention::Spec attention;
  DType dtype = DType::f16;
};

template <class Spec>
std::vector<Layer<Spec>> with_pages_of_each_type(const std::vector<Layer<Spec>>& layers) {
  std::vector<Layer<Spec>> all;
  for (const Layer<Spec>& layer : layers) {
    for (const DType dtype : {DType::f16, DType::bf16, DType::q8_0}) {
      all.push_back(layer);
      all.back().name += "_" + std::string(name(dtype));
      all.back().dtype = dtype;
    }
  }
  return all;
}

Attention::Spec heads(std::int32_t q_heads, std::int32_t kv_heads, std::int32_t head_dim, std::int32_t value_dim = 0) {
  Attention::Spec spec;
  spec.q_heads = q_heads;
  spec.kv_heads = kv_heads;
  spec.head_dim = head_dim;
  spec.value_dim = value_dim;
  return spec;
}

/// Calls compare(step, layout) for each step of servers whose pages are not too large for the comparison.
template <class Compare>
void for_each_step(const KvLayout& layout, const Compare& compare) {
  for (const StepShape& shape : steps_of_servers()) {
    SCOPED_TRACE(shape.name);
    Random random(13);
    const PagedStep step = append_step(shape.sequences, layout.block_tokens, random);
    if (!layout.dtype.is_quantised() ||
        step.num_blocks * static_cast<std::int64_t>(layout.block_bytes()) <= most_quant_bytes) {
      compare(step);
    }
  }
}

Output pages_for(const KvLayout& layout, const PagedStep& step) {
  return {layout.dtype.k, step.num_blocks * layout.block_elems() / layout.head_dim, layout.head_dim};
}

using RopeLayer = Layer<RopeAppend::Spec>;
void PrintTo(const RopeLayer& layer, std::ostream* out) { *out << layer.name; }

std::vector<RopeLayer> rope_layers() {
  using enum RopeKind;
  return with_pages_of_each_type<RopeAppend::Spec>({
      {"llama2_7b", {.kind = adjacent, .n_rot = 128, .layout = {}}, heads(32, 32, 128)},
      {"llama3_8b", {.kind = adjacent, .n_rot = 128, .layout = {}}, heads(32, 8, 128)},
      {"qwen2_5_0_5b", {.kind = half, .n_rot = 64, .layout = {}}, heads(14, 2, 64)},
      {"qwen3_30b_a3b", {.kind = half, .n_rot = 128, .head_norm = true, .layout = {}}, heads(32, 4, 128)},
      {"qwen3_5_35b_a3b", {.kind = half, .n_rot = 64, .head_norm = true, .layout = {}}, heads(16, 2, 256)},
      {"gemma3_12b", {.kind = half, .n_rot = 256, .head_norm = true, .layout = {}}, heads(16, 8, 256)},
      {"gpt_oss_20b", {.kind = half, .n_rot = 64, .magnitude = 1.3466f, .layout = {}}, heads(64, 8, 64)},
      {"norm_after_turn",
       {.kind = half, .n_rot = 128, .head_norm = true, .norm_after_turn = true, .layout = {}},
       heads(32, 8, 128)},
      {"value_norm", {.kind = half, .n_rot = 128, .head_norm = true, .value_norm = true, .layout = {}}, heads(16, 8, 128)},
      {"temperature",
       {.kind = adjacent, .n_rot = 128, .temperature_scale = 0.1f, .temperature_length = 2048, .layout = {}},
       heads(32, 8, 128)},
  });
}

class RopeOfModels : public testing::TestWithParam<RopeLayer> {};

TEST_P(RopeOfModels, IsRightInEveryElement) {
  RopeAppend::Spec spec = GetParam().spec;
  spec.q_heads = GetParam().attention.q_heads;
  spec.head_dim = GetParam().attention.head_dim;
  spec.layout = layout_for(GetParam().attention, GetParam().dtype);
  Random random(14);
  const DeviceBuffer norm = uploaded(random.uniforms(spec.head_dim, 0.5f, 1.5f));
  const DeviceBuffer frequency = uploaded(rotary_frequencies(spec.n_rot));
  const std::int64_t row_heads = spec.q_heads + spec.layout.planes();
  std::int64_t elements = 0;
  for_each_step(spec.layout, [&](const PagedStep& step) {
    const StepArrays arrays(step.plan);
    const DeviceBuffer before = random_floats(arrays.tokens() * row_heads * spec.head_dim, 15, 2.0f);
    const auto make = [&] {
      std::vector<Output> outputs;
      outputs.emplace_back(DType::f32, arrays.tokens() * row_heads, spec.head_dim, &before);
      outputs.push_back(pages_for(spec.layout, step));
      return outputs;
    };
    const auto call = [&](const OpKernel<RopeAppend>& kernel, const std::vector<Output>& outputs) {
      auto* const q = outputs[0].memory.as<float>();
      const float* const k = q + std::int64_t{spec.q_heads} * spec.head_dim;
      const RopeAppend::Args args{.q = q,
                                  .k = k,
                                  .v = k + std::int64_t{spec.layout.kv_heads} * spec.head_dim,
                                  .stride = row_heads * spec.head_dim,
                                  .q_norm = norm.as<float>(),
                                  .k_norm = norm.as<float>(),
                                  .inverse_frequency = frequency.as<float>(),
                                  .cache = {outputs[1].memory.data(), step.num_blocks},
                                  .batch = arrays.batch()};
      return [&kernel, &spec, args] { kernel.run(spec, args, harness().target.context); };
    };
    elements += compare_with_plain<RopeAppend>(spec, make, call, [&](const auto& actual, const auto& expected, auto kernel) {
      expect_rows(actual[0], expected[0], tolerance(DType::f32), kernel);
      expect_pages(actual[1], expected[1], spec.layout, pages_tolerance(spec.layout.dtype), kernel);
      return actual[0].rows * actual[0].width + actual[1].rows * actual[1].width;
    });
  });
  print_elements(GetParam().name, elements);
}

INSTANTIATE_TEST_SUITE_P(HugeLayers, RopeOfModels, testing::ValuesIn(rope_layers()),
                         [](const auto& test) { return test.param.name; });

using LatentLayer = Layer<LatentAppend::Spec>;
void PrintTo(const LatentLayer& layer, std::ostream* out) { *out << layer.name; }

std::vector<LatentLayer> latent_layers() {
  return with_pages_of_each_type<LatentAppend::Spec>({
      {"glm_4_7_flash", {.q_dim = 256, .n_rot = 64, .layout = {}}, heads(20, 1, 576, 512)},
      {"deepseek_v2_lite", {.q_dim = 192, .n_rot = 64, .magnitude = 1.2f, .layout = {}}, heads(16, 1, 576, 512)},
      {"mistral4",
       {.q_dim = 128, .n_rot = 64, .temperature_scale = 0.1f, .temperature_length = 2048, .layout = {}},
       heads(32, 1, 320, 256)},
  });
}

class LatentAppendOfModels : public testing::TestWithParam<LatentLayer> {};

TEST_P(LatentAppendOfModels, IsRightInEveryElement) {
  LatentAppend::Spec spec = GetParam().spec;
  spec.q_heads = GetParam().attention.q_heads;
  spec.layout = layout_for(GetParam().attention, GetParam().dtype);
  Random random(16);
  const DeviceBuffer norm = uploaded(random.uniforms(spec.layout.value_dim, 0.5f, 1.5f));
  const DeviceBuffer frequency = uploaded(rotary_frequencies(spec.n_rot));
  std::int64_t elements = 0;
  for_each_step(spec.layout, [&](const PagedStep& step) {
    const StepArrays arrays(step.plan);
    const DeviceBuffer before = random_floats(arrays.tokens() * spec.q_heads * spec.q_dim, 17, 2.0f);
    const DeviceBuffer rows = random_floats(arrays.tokens() * spec.layout.head_dim, 18, 2.0f);
    const auto make = [&] {
      std::vector<Output> outputs;
      outputs.emplace_back(DType::f32, arrays.tokens() * spec.q_heads, spec.q_dim, &before);
      outputs.push_back(pages_for(spec.layout, step));
      return outputs;
    };
    const auto call = [&](const OpKernel<LatentAppend>& kernel, const std::vector<Output>& outputs) {
      const LatentAppend::Args args{.q = outputs[0].memory.as<float>(),
                                    .q_stride = std::int64_t{spec.q_heads} * spec.q_dim,
                                    .kv = rows.as<float>(),
                                    .kv_stride = spec.layout.head_dim,
                                    .norm = norm.as<float>(),
                                    .inverse_frequency = frequency.as<float>(),
                                    .cache = {outputs[1].memory.data(), step.num_blocks},
                                    .batch = arrays.batch()};
      return [&kernel, &spec, args] { kernel.run(spec, args, harness().target.context); };
    };
    elements +=
        compare_with_plain<LatentAppend>(spec, make, call, [&](const auto& actual, const auto& expected, auto kernel) {
          expect_rows(actual[0], expected[0], tolerance(DType::f32), kernel);
          expect_pages(actual[1], expected[1], spec.layout, pages_tolerance(spec.layout.dtype), kernel);
          return actual[0].rows * actual[0].width + actual[1].rows * actual[1].width;
        });
  });
  print_elements(GetParam().name, elements);
}

INSTANTIATE_TEST_SUITE_P(HugeLayers, LatentAppendOfModels, testing::ValuesIn(latent_layers()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace rocmforge::test::at_size_pages_test
