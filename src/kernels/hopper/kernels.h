#pragma once

#include <memory>

#include "ops/kernel_registry.h"

namespace rocmforge {

std::unique_ptr<AttentionBackend> make_hopper_attention_prefill();  ///< "hopper_prefill"
std::unique_ptr<AttentionBackend> make_hopper_attention_decode();   ///< "hopper_decode"

/// "hopper": quantised weights, repacked at load (weight_layout.h).
std::unique_ptr<MatmulKernel> make_hopper_matmul();

}  // namespace rocmforge
