#pragma once

#include "models/metadata_reader.h"
#include "models/model_config.h"

namespace rocmforge {

/// What an architecture's files leave unsaid about their experts.
struct ExpertDefaults {
  RouteScore score = RouteScore::softmax;
  bool normalise = false;
  bool shared_gate = false;   ///< what every token takes has a gate of its own
  bool needs_bias = false;    ///< the router and the experts have biases
  bool may_be_dense = false;  ///< a file without experts is one of the architecture too
};

/// Reads the keys of experts into the layers that have them: all but the leading dense ones, or one of every few. Throws
/// Error naming the key for a count, a group or a score that can't be.
void read_experts(ModelConfig& config, MetadataReader& metadata, const ExpertDefaults& defaults);

}  // namespace rocmforge
