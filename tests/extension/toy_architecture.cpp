#include "extension/toy_architecture.h"

#include <cstddef>

namespace rocmforge {
namespace {

void configure_toy(ModelConfig& config, MetadataReader& metadata) {
  const std::int32_t period = metadata.count("period", 4);
  for (std::int32_t index = period - 1; index < config.layers; index += period) {
    config.blocks[static_cast<std::size_t>(index)].attention.rope.kind = RopeKind::none;
  }
}

}  // namespace

Architecture toy_architecture() { return {.name = "toy", .configure = configure_toy}; }

}  // namespace rocmforge
