// The products of latent attention at the sizes of real work, on a real GPU: every element is compared with the plain
// kernels' (check). Outputs and workspaces are poisoned, and each call runs in all situations.

#include <algorithm>
#include <map>

#include "checks/model_shapes.h"
#include "conformance/at_size.h"

namespace rocmforge::test {
namespace {

constexpr DType formats_of_matrices[] = {DType::f16, DType::bf16, DType::q8_0, DType::q4_0};

// ---- K and V of single heads

struct ExpandLayer {
  std::string name;
  std::int32_t plain_dim;
  std::int32_t value_dim;
};

/// Steps of prompts: decodes do not expand.
std::vector<StepShape> prompts() {
  std::vector<StepShape> all;
  for (const std::int32_t length : lengths_around_tiles()) {
    all.push_back(prompts_of(40, length));
  }
  all.push_back({"a prompt of 2,048", {{2048, 2048}}});
  all.push_back({"a chunk of 512 behind 8,191", {{8703, 512}}});
  all.push_back(mixed_step(8));
  return all;
}

KvLayout latent_layout(DType dtype) {
  Attention::Spec spec;
  spec.q_heads = 16;
  spec.kv_heads = 1;
  spec.head_dim = 576;
  spec.value_dim = 512;
  spec.kv_dtype = dtype;
  return harness().registry.choose<Attention>(spec, harness().device, "check").kernel->layout(spec);
}

std::int64_t compare_expand(const LatentExpand::Spec& spec, const StepShape& shape) {
  constexpr std::int32_t heads = 2;
  SCOPED_TRACE(shape.name);
  Random random(19);
  const PagedStep step = paged_step(shape.sequences, spec.layout.block_tokens, random);
  const StepArrays arrays(step.plan);
  const DeviceBuffer pages = uploaded(random_pages(spec.layout, step.num_blocks, random));
  const DeviceBuffer keys =
      uploaded(random_weight(spec.key_weight, heads * std::int64_t{spec.rank()}, spec.plain_dim, random));
  const DeviceBuffer values =
      uploaded(random_weight(spec.value_weight, heads * std::int64_t{spec.value_dim}, spec.rank(), random));
  const DeviceBuffer workspace = poisoned_buffer(spec.workspace_bytes(heads));
  const RaggedBatch batch = arrays.batch();
  const std::int64_t rows = std::int64_t{batch.num_sequences} * heads * batch.max_kv_len;
  const auto make = [&] {
    std::vector<Output> outputs;
    for (int part = 0; part < 2; ++part) {
      outputs.emplace_back(spec.out, rows, spec.head_dim());
    }
    return outputs;
  };
  const auto call = [&](const OpKernel<LatentExpand>& kernel, const std::vector<Output>& outputs) {
    const LatentExpand::Args args{.key_weight = keys.data(),
                                  .key_head_bytes = static_cast<std::int64_t>(keys.size_bytes()) / heads,
                                  .value_weight = values.data(),
                                  .value_head_bytes = static_cast<std::int64_t>(values.size_bytes()) / heads,
                                  .heads = heads,
                                  .cache = {pages.data(), step.num_blocks},
                                  .batch = batch,
                                  .k = outputs[0].memory.data(),
                                  .v = outputs[1].memory.data(),
                                  .workspace = workspace.data()};
    return [&kernel, &spec, args] { kernel.run(spec, args, harness().target.context); };
  };
  return compare_with_plain<LatentExpand>(spec, make, call, [&](const auto& actual, const auto& expected, auto kernel) {
    for (std::size_t part = 0; part < 2; ++part) {
      expect_rows(actual[part], expected[part], tolerance(spec.out), kernel);  // weights are rounded to 16 bits, too
    }
    return 2 * rows * spec.head_dim();
  });
}

TEST(HugeLatentProducts, ExpandedHeadsAreRightInEveryElement) {
  std::int64_t elements = 0;
  for (const ExpandLayer& layer : {ExpandLayer{"glm_4_7_flash", 192, 256}, {"deepseek_v2_lite", 128, 128}}) {
    SCOPED_TRACE(layer.name);
    for (const DType pages : {DType::f16, DType::bf16, DType::q8_0}) {
      for (const DType weight : formats_of_matrices) {
        const LatentExpand::Spec spec{.plain_dim = layer.plain_dim,
                                      .value_dim = layer.value_dim,
                                      .key_weight = weight,
                                      .value_weight = weight,
                                      .out = pages == DType::bf16 ? DType::bf16 : DType::f16,
                                      .layout = latent_layout(pages)};
        for (const StepShape& shape : prompts()) {
          elements += compare_expand(spec, shape);
        }
      }
    }
  }
  print_elements("latent_expand", elements);
}

// ---- a matrix for each head

/// The matrices of all heads in the layout of a kernel.
DeviceBuffer matrices_for(const HeadMatmulKernel& kernel, const HeadMatmul::Spec& spec, const std::vector<std::byte>& rows) {
  const std::size_t packed = kernel.packed_bytes(spec);
  if (packed == 0) {
    return uploaded(rows);
  }
  const auto heads = static_cast<std::size_t>(spec.heads);
  PoisonedBytes to(packed * heads);
  for (std::size_t head = 0; head < heads; ++head) {
    kernel.pack(spec, rows.data() + head * (rows.size() / heads), to.data() + head * packed, harness().host.context);
  }
  return uploaded(std::vector<std::byte>(to.bytes().begin(), to.bytes().end()));
}

void compare_heads(const HeadMatmul::Spec& spec, std::int64_t tokens, std::int64_t& elements) {
  SCOPED_TRACE(testing::Message() << tokens << " tokens");
  Random random(20);
  const std::vector<std::byte> rows = random_weight(spec.weight, spec.heads * spec.n, spec.k, random);
  std::map<const HeadMatmulKernel*, DeviceBuffer> weights;
  std::map<const HeadMatmulKernel*, DeviceBuffer> workspaces;
  const DeviceBuffer x = random_floats(tokens * spec.heads * (spec.k + spec.tail), 21);
  const auto make = [&] {
    std::vector<Output> outputs;
    outputs.emplace_back(DType::f32, tokens * spec.heads, spec.n + spec.tail);
    return outputs;
  };
  const auto call = [&](const HeadMatmulKernel& kernel, const std::vector<Output>& outputs) {
    const DeviceBuffer& weight = weights.try_emplace(&kernel, matrices_for(kernel, spec, rows)).first->second;
    const DeviceBuffer& workspace =
        workspaces.try_emplace(&kernel, poisoned_buffer(kernel.workspace_bytes(spec, tokens))).first->second;
    const HeadMatmul::Args args{.x = x.as<float>(),
                                .x_stride = spec.heads * (spec.k + spec.tail),
                                .tokens = tokens,
                                .weight = weight.data(),
                                .head_bytes = static_cast<std::int64_t>(weight.size_bytes()) / spec.heads,
                                .out = outputs[0].memory.as<float>(),
                                .workspace = workspace.data()};
    return [&kernel, &spec, args] { kernel.run(spec, args, harness().target.context); };
  };
  elements += compare_with_plain<HeadMatmul>(spec, make, call, [&](const auto& actual, const auto& expected, auto kernel) {
    // Activations have 16 bits.
    expect_rows(actual[0], expected[0], spec.weight == DType::bf16 ? 2 * tolerance(DType::bf16) : 1e-3, kernel);
    return actual[0].rows * actual[0].width;
  });
}

// Of GLM-4.7-Flash: queries into the latent, and the latent into values.
TEST(HugeLatentProducts, HeadsAreRightInEveryElement) {
  std::int64_t elements = 0;
  for (const DType weight : formats_of_matrices) {
    for (const HeadMatmul::Spec& spec : {HeadMatmul::Spec{weight, 20, 512, 192, 64}, {weight, 20, 256, 512, 0}}) {
      for (const std::int64_t tokens : {1, 2, 3, 4, 5, 8, 9, 31, 32, 33, 64, 65, 129, 256, 300, 2048}) {
        compare_heads(spec, tokens, elements);
      }
    }
  }
  print_elements("head_matmul", elements);
}

}  // namespace
}  // namespace rocmforge::test
