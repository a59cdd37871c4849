#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "kernels/attention/portable/attention_launch.h"

namespace rocmforge::gpu {

/// The kernels of fused attention for prompts at one head_dim, by the type of K and V.
template <class KernelArgs>
struct PromptKernelsOf {
  std::int32_t head_dim;
  Kernel<KernelArgs> f16;
  Kernel<KernelArgs> bf16;
};
using PromptKernels = PromptKernelsOf<AttentionArgs>;
using SpanKernels = PromptKernelsOf<SpanAttentionArgs>;

/// Null where there are none.
template <class Kernels, std::size_t count>
const Kernels* find_prompt_kernels(const std::array<Kernels, count>& all, std::int32_t head_dim) {
  const auto found = std::ranges::find(all, head_dim, &Kernels::head_dim);
  return found != all.end() ? &*found : nullptr;
}

inline Support check_prompt_type(const KvTypes& kv_dtype) {
  if (kv_dtype != DType::f16 && kv_dtype != DType::bf16) {
    return Support::no(fmt::format("K and V of type {}: matrix cores take F16 and BF16", rocmforge::name(kv_dtype)));
  }
  return Support::yes();
}

inline const KvAddress& kv_of(const AttentionArgs& args) { return args.kv; }
inline const KvAddress& kv_of(const SpanAttentionArgs& args) { return args.call.kv; }

/// Launches work-groups of `threads` for each `rows` query rows of a head. Throws LogicError with the backend's name when
/// `kernels` is null, or for a type that check_prompt_type() refuses.
template <class KernelArgs>
void launch_prompt(std::string_view backend, const PromptKernelsOf<KernelArgs>* kernels, const Attention::Spec& spec,
                   const Attention::Args& args, const KernelArgs& kernel_args, int rows, std::uint32_t threads,
                   Stream& stream) {
  check_vector_loads(kv_of(kernel_args), spec.kv_dtype.k);
  if (kernels == nullptr || !check_prompt_type(spec.kv_dtype).ok) {
    check(false, fmt::format("attention: {} does not support this spec", backend));
  }
  check(args.batch.num_sequences <= 65535 && spec.q_heads <= 65535, "attention: more than 65,535 sequences or heads");
  const std::int32_t tiles = (args.batch.max_q_len + rows - 1) / rows;
  if (args.batch.num_tokens == 0 || tiles == 0) {
    return;
  }
  LaunchShape shape;
  shape.grid = {static_cast<std::uint32_t>(tiles), static_cast<std::uint32_t>(spec.q_heads),
                static_cast<std::uint32_t>(args.batch.num_sequences)};
  shape.block[0] = threads;
  (spec.kv_dtype == DType::f16 ? kernels->f16 : kernels->bf16).launch(stream, shape, kernel_args);
}

}  // namespace rocmforge::gpu
