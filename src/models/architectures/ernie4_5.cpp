#include "models/config/architecture.h"
#include "models/config/expert_config.h"

namespace rocmforge {
namespace {

/// ERNIE 4.5 with experts: Llama's block; experts are chosen with a bias, and there are shared experts.
void configure_ernie4_5_moe(ModelConfig& config, MetadataReader& metadata) {
  read_experts(config, metadata, {.normalise = true});
}

}  // namespace

/// ERNIE 4.5 (dense): Llama's block with the defaults: neighbouring elements of a head are rotated, biases where the file
/// has them.
Architecture ernie4_5_architecture() {
  return {"ernie4_5", [](ModelConfig&, MetadataReader&) {}};
}
Architecture ernie4_5_moe_architecture() { return {"ernie4_5-moe", configure_ernie4_5_moe}; }

}  // namespace rocmforge
