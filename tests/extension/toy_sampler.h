#pragma once

#include <memory>

#include "ops/registry.h"
#include "ops/sample.h"

namespace rocmforge {

/// A way to draw that nobody wants: the least likely of the tokens that may be drawn, the lower id first. A kernel of the
/// operation, as docs/add-a-sampler.md describes it; the engine takes it by its priority, with no change of its own.
std::unique_ptr<OpKernel<SampleTokens>> make_toy_sampler();

}  // namespace rocmforge
