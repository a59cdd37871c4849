#pragma once

#include <cstdint>

namespace rocmforge::hopper {

/// The activation of a product that is the gate of another one; of host and device code.
enum class Gate : std::int32_t { none, silu, gelu_tanh };

}  // namespace rocmforge::hopper
