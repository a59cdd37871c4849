#pragma once

#include "models/config/metadata_reader.h"
#include "models/config/model_config.h"

namespace rocmforge {

/// Properties of an architecture's experts that its files do not contain.
struct ExpertDefaults {
  RouteScore score = RouteScore::softmax;
  bool normalise = false;
  bool shared_gate = false;   ///< the shared expert has a gate of its own
  bool needs_bias = false;    ///< the router and the experts have biases
  bool may_be_dense = false;  ///< the architecture's files may have no experts
};

/// Reads the keys of experts into the layers that have them: all but the leading dense ones, or one of every few. Throws
/// Error naming the key for an impossible count, group or score.
void read_experts(ModelConfig& config, MetadataReader& metadata, const ExpertDefaults& defaults);
/// For architectures whose files don't name the dense layers: a layer without a router is dense.
void find_dense_layers(ModelConfig& config, const GgufFile& file);

}  // namespace rocmforge
