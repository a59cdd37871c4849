#include <cstddef>

#include "models/config/architecture.h"

namespace rocmforge {
namespace {

/// SmolLM3: Llama's block, but every fourth layer has no rotation. Converters permute the rows of Q and K.
void configure_smollm3(ModelConfig& config, MetadataReader& /*metadata*/) {
  constexpr int period = 4;
  for (int index = period - 1; index < config.layers; index += period) {
    config.blocks[static_cast<std::size_t>(index)].attention.rope.kind = RopeKind::none;
  }
}

}  // namespace

Architecture smollm3_architecture() { return {"smollm3", configure_smollm3}; }

}  // namespace rocmforge
