#pragma once

#include <string_view>

#include "ops/kernel_registry.h"

namespace rocmforge {

/// The kernels of a step's two phases, which share a cache.
struct AttentionPair {
  Choice<Attention> prefill;
  Choice<Attention> decode;
  KvLayout layout;  ///< with the decode kernel's block size, since prefill works with any
};

/// The spec of the phase of single rows. A single row is the last of its sequence, so that it sees the same keys whether
/// attention is causal or not.
Attention::Spec single_row_spec(Attention::Spec spec);

/// The best two kernels that agree on the layout of the cache, for `spec` and single_row_spec(). A kernel of
/// higher priority that agrees with no kernel of the other phase is listed in the refusals with that reason. A forced kernel
/// is taken for the phases that it supports. Throws Error, with the reasons, when the forced one supports neither, when no
/// kernel supports a phase, and when no two agree. `cache`: the layout of another layer's, which both must read; null: the
/// kernels decide.
AttentionPair choose_attention(const KernelRegistry& registry, const Attention::Spec& spec, const DeviceInfo& device,
                               std::string_view forced, const KvLayout* cache = nullptr);

/// The best kernel for `spec`, a further kind of step, on the cache of that pair. Throws Error, with the reasons, when there
/// is none.
Choice<Attention> choose_beside(const AttentionPair& pair, const KernelRegistry& registry, const Attention::Spec& spec,
                                const DeviceInfo& device);

/// "F16, 2 KV heads of 64, blocks of 64 tokens"
std::string to_string(const KvLayout& layout);

}  // namespace rocmforge
