#include "models/plan/placement.h"

#include <algorithm>
#include <iterator>

namespace rocmforge {

Placement Placement::of_layers(int first, int end, bool last) const {
  Placement own = *this;
  for (int index = 0; index < static_cast<int>(std::ssize(layers)); ++index) {
    if (index < first || index >= end) {
      own.layers[static_cast<std::size_t>(index)] = {};
    }
  }
  if (first > 0) {
    own.embedding = Side::device;
  }
  if (!last) {
    own.output = Side::device;
  }
  return own;
}

bool Placement::split() const {
  return embedding == Side::host || output == Side::host || std::ranges::any_of(layers, [](const Layer& layer) {
           return layer.side == Side::host || layer.experts == Side::host;
         });
}

}  // namespace rocmforge
