#include "models/plan/placement.h"

#include <algorithm>

namespace rocmforge {

bool Placement::split() const {
  return embedding == Side::host || output == Side::host || std::ranges::any_of(layers, [](const Layer& layer) {
           return layer.side == Side::host || layer.experts == Side::host;
         });
}

}  // namespace rocmforge
