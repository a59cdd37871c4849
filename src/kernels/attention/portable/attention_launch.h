#pragma once

#include "kernels/attention/portable/attention_args.h"
#include "kernels/launch/gpu_kernel.h"

namespace rocmforge::gpu {

/// Base of the portable GPU attention backends: one registration for each kind of device, one cache layout for all, so that
/// a model may use one for prefill and another for decode.
class GpuAttention : public GpuKernel<AttentionBackend> {
 public:
  using GpuKernel::GpuKernel;

  /// Token-major K and V in blocks of 64: a block of one KV head is then at least 8 KiB side by side at head_dim 64, and one
  /// tile of keys of the fused kernel reads one entry of the block table.
  [[nodiscard]] KvLayout layout(const Attention::Spec& spec) const final;

 protected:
  /// Checks the arguments that the host can see.
  void check_call(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args) const;
  /// Checks the arguments, and fills the fields that all kernels read.
  [[nodiscard]] AttentionArgs attention_args(const Attention::Spec& spec, const KvLayout& layout,
                                             const Attention::Args& args) const;
};

/// Whether kernels of latent planes take the shapes of `spec`.
[[nodiscard]] Support check_latent_plane(const Attention::Spec& spec);

/// Where K and V lie: in `dense` when its k is set, else in the pages of the cache.
KvAddress kv_address(const KvLayout& layout, const KvCacheView& cache, const DenseKv& dense,
                     const std::int32_t* block_tables, std::int32_t max_blocks);

/// Throws LogicError when dense tensors do not allow K and V to be read 16 bytes at a time.
void check_vector_loads(const KvAddress& kv, DType dtype);

/// Whether the backend's kernels take pages of two types, or of quantised types but Q8_0, rotated or not.
[[nodiscard]] Support check_coded_types(const KvTypes& types);

/// Multiplies the computed rows of the output by the Walsh-Hadamard matrix, where V is rotated.
void turn_output_back(const Attention::Spec& spec, const Attention::Args& args, Stream& stream);

/// Threads of a work-group of four waves.
inline std::uint32_t four_waves(const ExecutionContext& context) {
  return 4 * static_cast<std::uint32_t>(context.stream->device().info().wave_size);
}

}  // namespace rocmforge::gpu
