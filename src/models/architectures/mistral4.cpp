#include "models/config/architecture.h"
#include "models/config/expert_config.h"

namespace rocmforge {
namespace {

/// Mistral Small 4: latent attention whose queries may be scaled up with their position; experts are chosen by a softmax,
/// and there is a shared expert.
void configure_mistral4(ModelConfig& config, MetadataReader& metadata) {
  read_experts(config, metadata, {.normalise = true, .may_be_dense = true});
}

}  // namespace

Architecture mistral4_architecture() { return {.name = "mistral4", .configure = configure_mistral4, .latent = true}; }

}  // namespace rocmforge
