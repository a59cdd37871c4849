#include "checks/model_shapes.h"

#include <algorithm>
#include <optional>

namespace rocmforge {
namespace {

Attention::Spec heads(std::int32_t q_heads, std::int32_t kv_heads, std::int32_t head_dim) {
  Attention::Spec spec;
  spec.q_heads = q_heads;
  spec.kv_heads = kv_heads;
  spec.head_dim = head_dim;
  return spec;
}

Attention::Spec with(Attention::Spec spec, std::int32_t window, bool sinks) {
  spec.window = window;
  spec.sinks = sinks;
  return spec;
}

std::vector<SequenceShape> repeated(std::int32_t count, SequenceShape shape) {
  return std::vector<SequenceShape>(static_cast<std::size_t>(count), shape);
}

}  // namespace

std::vector<ModelAttention> attention_of_models() {
  Attention::Spec latent = heads(20, 1, 576);
  latent.value_dim = 512;
  return {{"tinyllama", heads(32, 4, 64)},
          {"llama2_7b", heads(32, 32, 128)},
          {"llama3_8b", heads(32, 8, 128)},
          {"llama3_70b", heads(64, 8, 128)},
          {"qwen2_5_0_5b", heads(14, 2, 64)},
          {"qwen2_5_7b", heads(28, 4, 128)},
          {"qwen3_30b_a3b", heads(32, 4, 128)},
          {"qwen3_5_35b_a3b", heads(16, 2, 256)},
          {"gemma3_12b", heads(16, 8, 256)},
          {"gemma3_12b_window", with(heads(16, 8, 256), 1024, false)},
          {"gpt_oss_20b", with(heads(64, 8, 64), 0, true)},
          {"gpt_oss_20b_window", with(heads(64, 8, 64), 128, true)},
          {"glm_4_7_flash", latent}};
}

std::vector<ModelRouter> routers_of_models() {
  const RouteTokens::Spec qwen3{.experts = 128, .used = 8, .normalise = true};
  const RouteTokens::Spec qwen3_5{.experts = 256, .used = 8, .normalise = true, .shared = 1, .shared_gates = true};
  const RouteTokens::Spec glm{
      .experts = 64, .used = 4, .score = RouteScore::sigmoid, .bias = true, .normalise = true, .scale = 1.8f, .shared = 1};
  const RouteTokens::Spec gpt_oss{.experts = 32, .used = 4, .score = RouteScore::chosen_softmax};
  return {{"qwen3_30b_a3b", {.route = qwen3, .hidden = 2048, .eps = 1e-6f}},
          {"qwen3_5_35b_a3b", {.route = qwen3_5, .hidden = 2048, .eps = 1e-6f}},
          {"glm_4_7_flash", {.route = glm, .hidden = 2048, .eps = 1e-6f}},
          {"gpt_oss_20b", {.route = gpt_oss, .hidden = 2880, .eps = 1e-6f}},
          {"deepseek_v3", router_of_deepseek_v3()}};
}

RouteRows::Spec router_of_deepseek_v3() {
  return {.route = {.experts = 256,
                    .used = 8,
                    .score = RouteScore::sigmoid,
                    .bias = true,
                    .normalise = true,
                    .scale = 2.5f,
                    .groups = 8,
                    .groups_used = 4},
          .hidden = 7168,
          .eps = 1e-6f};
}

StepShape ragged_decodes(std::int32_t count) {
  StepShape step{std::to_string(count) + " ragged decodes", {}};
  for (std::int32_t i = 0; i < count; ++i) {
    step.sequences.push_back({1 + i * 37 % 2100, 1});
  }
  return step;
}

StepShape prompts_of(std::int32_t count, std::int32_t length) {
  return {std::to_string(count) + " prompts of " + std::to_string(length), repeated(count, {length, length})};
}

StepShape mixed_step(std::int32_t prompts) {
  StepShape step{"prompts of all lengths beside decodes", {}};
  for (std::int32_t i = 0; i < prompts; ++i) {
    const std::int32_t length = 1 + i * 53 % 140;
    step.sequences.push_back({length + (i % 3) * 511, length});
    step.sequences.push_back({1 + i * 97 % 3000, 1});
  }
  return step;
}

std::span<const std::int32_t> lengths_around_tiles() {
  static constexpr std::int32_t lengths[] = {1, 15, 16, 17, 60, 63, 64, 65, 79, 80, 81, 127, 128, 129};
  return lengths;
}

void drop_longer(std::vector<StepShape>& steps, std::int64_t max_tokens, std::int64_t max_kv_len) {
  std::erase_if(steps, [&](const StepShape& step) {
    std::int64_t tokens = 0;
    std::int64_t longest = 0;
    for (const SequenceShape& shape : step.sequences) {
      tokens += shape.q_len;
      longest = std::max<std::int64_t>(longest, shape.kv_len);
    }
    return longest > max_kv_len || tokens > std::max<std::int64_t>(max_tokens, 17);
  });
}

std::vector<StepShape> steps_of_servers() {
  std::vector<StepShape> all = {{"one token", {{1, 1}}},
                                {"one token behind 4,095", {{4096, 1}}},
                                {"one token behind 131,072", {{131073, 1}}},
                                {"3 decodes", {{1, 1}, {4096, 1}, {65, 1}}},
                                ragged_decodes(256)};
  for (const std::int32_t length : lengths_around_tiles()) {
    all.push_back(prompts_of(300, length));
  }
  all.push_back({"a prompt of 2,048", {{2048, 2048}}});
  all.push_back({"4 prompts of 2,048", repeated(4, {2048, 2048})});
  all.push_back({"a chunk of 512 behind 8,191", {{8703, 512}}});
  all.push_back(mixed_step(120));
  return all;
}

std::span<const WeightShape> weights_of_models() {
  static constexpr WeightShape shapes[] = {{4096, 4096},  {14336, 4096}, {4096, 14336}, {896, 4864},
                                           {15360, 3840}, {5120, 2880},  {128256, 4096}};
  return shapes;
}

std::vector<DType> computing_types() {
  std::vector<DType> types;
  for (std::uint32_t id = 0; id < 64; ++id) {
    if (const auto type = dtype_from_id(id); type && info(*type).computes) {
      types.push_back(*type);
    }
  }
  return types;
}

}  // namespace rocmforge
