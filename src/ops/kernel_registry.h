#pragma once

#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/matmul.h"
#include "ops/registry.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"

namespace rocmforge {

using KernelRegistry = KernelRegistryOf<EmbeddingRows, RmsNorm, Matmul, RopeAppend, Attention, GatedActivation>;

}  // namespace rocmforge
