#pragma once

#include <string_view>

#include "ops/kernel_registry.h"

namespace rocmforge {

/// The kernels of a step's two phases, which read one cache.
struct AttentionPair {
  Choice<Attention> prefill;
  Choice<Attention> decode;
  KvLayout layout;  ///< with the decode kernel's size of blocks: any is as good for prefill
};

/// The best two kernels that agree on the layout of the cache, for `spec` and the same spec with decode set. A kernel that
/// would be better but agrees with none says so among the refusals. A forced kernel serves the phases it can. Throws Error,
/// with the reasons, when it can serve neither, when nobody serves a phase, and when no two kernels agree.
AttentionPair choose_attention(const KernelRegistry& registry, const Attention::Spec& spec, const DeviceInfo& device,
                               std::string_view forced);

/// "F16, 2 KV heads of 64, blocks of 64 tokens"
std::string to_string(const KvLayout& layout);

}  // namespace rocmforge
