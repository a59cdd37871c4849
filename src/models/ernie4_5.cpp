#include "models/architecture.h"
#include "models/expert_config.h"

namespace rocmforge {
namespace {

/// ERNIE 4.5 with experts: Llama's block; a bias takes part in the choice of experts, beside which every token takes some.
void configure_ernie4_5_moe(ModelConfig& config, MetadataReader& metadata) {
  read_experts(config, metadata, {.normalise = true});
}

}  // namespace

/// ERNIE 4.5 (dense): Llama's block with what is the default: neighbours of a head turn, biases where the file has some.
Architecture ernie4_5_architecture() {
  return {"ernie4_5", [](ModelConfig&, MetadataReader&) {}};
}
Architecture ernie4_5_moe_architecture() { return {"ernie4_5-moe", configure_ernie4_5_moe}; }

}  // namespace rocmforge
