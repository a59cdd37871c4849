#pragma once

#include <string>
#include <vector>

#include "models/plan/choose_placement.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// Adds the sides of parts that "REGEX=DEVICE" give to `wishes`. An expression is searched in the names of tensors; where
/// several match, the first counts. DEVICE is "cpu" or "gpu", or a name of a GPU: "cuda:0". A part (the embedding, the
/// output, a layer without its experts, the experts of a layer) is on one side: throws Error naming two tensors of a part
/// that an expression splits, and for an expression that can't be read or matches nothing.
void add_overrides(const GgufFile& file, std::int32_t layers, const std::vector<std::string>& overrides,
                   PlacementWishes& wishes);

}  // namespace rocmforge
