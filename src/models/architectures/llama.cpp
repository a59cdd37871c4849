#include <fmt/format.h>

#include "models/config/architecture.h"
#include "models/config/expert_config.h"

namespace rocmforge {
namespace {

/// Llama 1 to 3 and models with the same graph: Mistral, TinyLlama, SmolLM and others, with experts Mixtral. Converters
/// permute the rows of Q and K so that neighbouring elements are rotated together, which is the default.
void configure_llama(ModelConfig& config, MetadataReader& metadata) {
  const AttentionConfig& attention = config.layer(0).attention;
  if (attention.rope.n_rot != attention.head_dim) {
    throw metadata.error("rope.dimension_count", fmt::format("is {}, the whole head ({}) must turn in a llama model",
                                                             attention.rope.n_rot, attention.head_dim));
  }
  read_experts(config, metadata, {.normalise = true, .may_be_dense = true});
}

}  // namespace

Architecture llama_architecture() { return {"llama", configure_llama}; }

}  // namespace rocmforge
