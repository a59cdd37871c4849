#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "models/architectures/architecture.h"
#include "weights/gguf_value.h"

namespace rocmforge {

std::span<const Architecture> architectures() {
  static const std::array all{
      llama_architecture(),       qwen2_architecture(),         qwen3_architecture(),         gemma_architecture(),
      gemma2_architecture(),      gemma3_architecture(),        gemma4_architecture(),        olmo2_architecture(),
      phi3_architecture(),        smollm3_architecture(),       granite_architecture(),       glm4_architecture(),
      exaone4_architecture(),     seed_oss_architecture(),      ernie4_5_architecture(),      command_r_architecture(),
      cohere2_architecture(),     starcoder2_architecture(),    hunyuan_dense_architecture(), qwen2moe_architecture(),
      qwen3moe_architecture(),    olmoe_architecture(),         granitemoe_architecture(),    ernie4_5_moe_architecture(),
      hunyuan_moe_architecture(), dots1_architecture(),         glm4moe_architecture(),       minimax_m2_architecture(),
      gpt_oss_architecture(),     qwen2vl_architecture(),       qwen3vl_architecture(),       qwen3vlmoe_architecture(),
      mistral3_architecture(),    lfm2_architecture(),          lfm2moe_architecture(),       deepseek2_architecture(),
      mamba2_architecture(),      granitehybrid_architecture(), nemotron_h_architecture(),    nemotron_h_moe_architecture(),
      bailingmoe2_architecture(), mistral4_architecture(),      falcon_architecture(),        gpt2_architecture(),
      qwen3next_architecture(),   qwen35_architecture(),        qwen35moe_architecture(),     nemotron_architecture(),
  };
  return all;
}

const Architecture& find_architecture(std::string_view name) {
  for (const Architecture& architecture : architectures()) {
    if (architecture.name == name) {
      return architecture;
    }
  }
  throw Error(fmt::format("architecture {} is not supported, those supported are {}", quote(name),
                          fmt::join(supported_architectures(), ", ")));
}

std::vector<std::string> supported_architectures() {
  std::vector<std::string> names;
  for (const Architecture& architecture : architectures()) {
    names.emplace_back(architecture.name);
  }
  return names;
}

}  // namespace rocmforge
