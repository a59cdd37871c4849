#pragma once

#include <memory>

#include "ops/attention.h"

namespace rocmforge {

/// "amd_decode": steps of one row a sequence, head_dim a multiple of 8 up to 256, KV f16, bf16 and q8_0, over the pages of
/// "gpu".
std::unique_ptr<AttentionBackend> make_amd_attention_decode();

/// "amd_prefill": steps of several rows a sequence at head_dim 192, 256 and 512, KV f16 and bf16, over the pages of "gpu".
std::unique_ptr<AttentionBackend> make_amd_attention_prefill();

}  // namespace rocmforge
