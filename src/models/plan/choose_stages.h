#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rocmforge {

/// What the layers of a model need, in bytes, and what each of the devices has that share them: all that the choice of
/// ModelOptions::stage_ends depends on.
struct StageNeeds {
  struct Layer {
    std::int64_t bytes = 0;  ///< on its device: weights, K and V of all positions, states
    int keys_of = -1;        ///< the layer whose K and V it reads: the two are on one device
  };
  std::vector<Layer> layers{};
  std::int64_t embedding = 0;             ///< on the first device
  std::int64_t output = 0;                ///< on the last one
  std::int64_t workspace = 0;             ///< on each
  std::vector<std::int64_t> available{};  ///< of each device
};

/// Layers for each device, so that the fullest one is as little full as can be: in proportion to what the devices have, and
/// within that wherever this is possible. Throws Error where there are fewer places to divide the layers than it takes.
std::vector<std::int32_t> choose_stages(const StageNeeds& needs);

/// Layers in these proportions, as llama.cpp's --tensor-split counts them: of the layers and the output as one more. Throws
/// Error for numbers that are not above 0, or where a device gets no layer.
std::vector<std::int32_t> stages_in_proportion(const StageNeeds& needs, std::span<const double> proportions);

}  // namespace rocmforge
