#pragma once

#include "models/config/architecture.h"

namespace rocmforge {

/// An architecture that no file has, in the one source file that docs/add-a-model.md names: Llama's block, but every fourth
/// layer has no rotation. "toy" in general.architecture.
Architecture toy_architecture();

}  // namespace rocmforge
