#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/experts.h"
#include "tensor/random_rows.h"

namespace rocmforge {

/// Random logits [tokens, spec.logits()] of which no token has two experts, or two groups, whose scores are so close that
/// rounding to F32 could change their order. `bias`: [experts], or empty for none.
std::vector<float> separate_logits(const RouteTokens::Spec& spec, std::span<const float> bias, std::int64_t tokens,
                                   Random& random);

}  // namespace rocmforge
