#include "models/architecture.h"

namespace rocmforge {

/// ERNIE 4.5 (dense): Llama's block with what is the default: neighbours of a head turn, biases where the file has some.
Architecture ernie4_5_architecture() {
  return {"ernie4_5", [](ModelConfig&, MetadataReader&) {}};
}

}  // namespace rocmforge
