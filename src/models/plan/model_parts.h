#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "memory/kv_group.h"

namespace rocmforge {

/// The bytes of the parts of a model that a Placement places, counted where a plan has placed them.
struct ModelParts {
  struct Part {
    std::size_t weights = 0;  ///< in memory, read from the file in place or copied
    std::size_t read = 0;     ///< of them in a decode step of one token
  };
  struct Layer {
    Part own;                        ///< without routed experts
    Part experts;                    ///< routed ones
    std::size_t state = 0;           ///< of one slot of recurrent state
    std::optional<KvPlace> plane{};  ///< of its own K and V
    int keys_of = -1;                ///< the layer whose K and V it reads in place of its own
  };
  Part embedding;
  Part output;
  std::vector<Layer> layers{};
};

}  // namespace rocmforge
