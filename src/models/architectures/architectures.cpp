#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "models/config/architecture.h"
#include "weights/gguf_value.h"

namespace rocmforge {

// clang-format off
/// The one list: NAME stands for the function NAME_architecture() in the source file of its family.
#define ROCMFORGE_ARCHITECTURES(DO) \
  DO(llama) DO(qwen2) DO(qwen3) DO(gemma) DO(gemma2) DO(gemma3) DO(gemma4) DO(gemma3n) DO(olmo2) DO(phi3) DO(smollm3) \
  DO(granite) DO(glm4) DO(exaone4) DO(seed_oss) DO(ernie4_5) DO(command_r) DO(cohere2) DO(starcoder2) \
  DO(hunyuan_dense) DO(qwen2moe) DO(qwen3moe) DO(olmoe) DO(granitemoe) DO(ernie4_5_moe) DO(hunyuan_moe) \
  DO(dots1) DO(hy_v3) DO(glm4moe) DO(minimax_m2) DO(gpt_oss) DO(qwen2vl) DO(qwen3vl) DO(qwen3vlmoe) DO(mistral3) \
  DO(lfm2) DO(lfm2moe) DO(deepseek2) DO(glm_dsa) DO(deepseek32) DO(mamba) DO(jamba) DO(mamba2) DO(falcon_h1) DO(granitehybrid) \
  DO(nemotron_h) DO(nemotron_h_moe) DO(bailingmoe2) DO(mistral4) DO(falcon) DO(gpt2) DO(qwen3next) DO(qwen35) DO(qwen35moe) DO(nemotron) DO(llama4) DO(laguna) DO(muse_glimmer) DO(step35) DO(kimi_linear) DO(bailingmoe3) \
  DO(bert) DO(nomic_bert) DO(jina_bert_v3) DO(modern_bert) DO(eurobert) DO(gemma_embedding)
// clang-format on

#define ROCMFORGE_DECLARE(NAME) Architecture NAME##_architecture();
ROCMFORGE_ARCHITECTURES(ROCMFORGE_DECLARE)
#undef ROCMFORGE_DECLARE

namespace {

std::vector<Architecture>& all_architectures() {
#define ROCMFORGE_CALL(NAME) NAME##_architecture(),
  static std::vector<Architecture> all{ROCMFORGE_ARCHITECTURES(ROCMFORGE_CALL)};
#undef ROCMFORGE_CALL
  return all;
}

}  // namespace

std::span<const Architecture> architectures() { return all_architectures(); }

void add_architecture(const Architecture& architecture) {
  check(std::ranges::find(architectures(), architecture.name, &Architecture::name) == architectures().end(),
        "an architecture has one description");
  all_architectures().push_back(architecture);
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
