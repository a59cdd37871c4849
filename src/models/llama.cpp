#include <fmt/format.h>

#include "models/architecture.h"
#include "models/decoder_layer.h"

namespace rocmforge {
namespace {

/// Llama 1 to 3 and what follows its graph: Mistral, TinyLlama, SmolLM and others. Converters permute the rows of Q and K so
/// that neighbouring elements turn together.
void configure_llama(ModelConfig& config, MetadataReader& metadata) {
  config.rope_kind = RopeKind::adjacent;
  if (config.n_rot != config.head_dim) {
    throw metadata.error("rope.dimension_count", fmt::format("is {}, the whole head ({}) must turn in a llama model",
                                                             config.n_rot, config.head_dim));
  }
}

}  // namespace

Architecture llama_architecture() { return {"llama", configure_llama, make_decoder_layer}; }

}  // namespace rocmforge
