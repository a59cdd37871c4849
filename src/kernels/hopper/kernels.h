#pragma once

#include <memory>

#include "ops/kernel_registry.h"

namespace rocmforge {

std::unique_ptr<AttentionBackend> make_hopper_attention_prefill();  ///< "hopper_prefill"
std::unique_ptr<AttentionBackend> make_hopper_attention_decode();   ///< "hopper_decode"

}  // namespace rocmforge
