#pragma once

#include <cstdint>
#include <vector>

#include "engine/running.h"

namespace rocmforge {

/// What a source of drafts is asked for one sequence.
struct DraftOrder {
  Running* running = nullptr;
  std::int32_t most = 0;               ///< tokens to draft; 0: none, but the source may prepare later ones
  std::vector<std::int32_t> tokens{};  ///< drafted
};

}  // namespace rocmforge
