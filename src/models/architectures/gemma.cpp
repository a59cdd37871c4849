#include "models/architectures/gemma_common.h"
#include "models/config/architecture.h"

namespace rocmforge {
namespace {

/// Gemma: Llama's graph with the common parts of all Gemmas.
void configure_gemma(ModelConfig& config, MetadataReader& metadata) { configure_gemma_common(config, metadata); }

}  // namespace

Architecture gemma_architecture() { return {"gemma", configure_gemma}; }

}  // namespace rocmforge
