#pragma once

#include <memory>
#include <vector>

#include "ops/kernel_registry.h"

// The kernels of attention, of its steps and of what a latent plane needs beside it, by family.

namespace rocmforge {

struct CpuBodies;

// Plain scalar code that sums in double: the definition that every other kernel is compared with, and the kernel of last
// resort.
std::unique_ptr<AttentionBackend> make_reference_attention();
std::unique_ptr<OpKernel<ReplicateKv>> make_reference_replicate_kv();
std::unique_ptr<OpKernel<QueryKey>> make_reference_query_key();
std::unique_ptr<OpKernel<Scale>> make_reference_scale();
std::unique_ptr<OpKernel<CausalMask>> make_reference_causal_mask();
std::unique_ptr<OpKernel<RowSoftmax>> make_reference_row_softmax();
std::unique_ptr<OpKernel<WeightsValue>> make_reference_weights_value();
std::unique_ptr<OpKernel<LatentAppend>> make_reference_latent_append();
std::unique_ptr<HeadMatmulKernel> make_reference_head_matmul();
std::unique_ptr<OpKernel<LatentExpand>> make_reference_latent_expand();
std::unique_ptr<OpKernel<CopyHeads>> make_reference_copy_heads();

// CPU: one kernel for each instruction set; `bodies` outlive it.
std::unique_ptr<AttentionBackend> make_cpu_attention(const CpuBodies& bodies);

/// Products with a matrix for each head, one kernel for each instruction set likewise.
std::vector<std::unique_ptr<HeadMatmulKernel>> make_cpu_head_matmuls();

// Portable, for DeviceKind::hip or cuda.
std::unique_ptr<OpKernel<ReplicateKv>> make_gpu_replicate_kv(DeviceKind kind);
std::unique_ptr<OpKernel<QueryKey>> make_gpu_query_key(DeviceKind kind);
std::unique_ptr<OpKernel<Scale>> make_gpu_scale(DeviceKind kind);
std::unique_ptr<OpKernel<CausalMask>> make_gpu_causal_mask(DeviceKind kind);
std::unique_ptr<OpKernel<RowSoftmax>> make_gpu_row_softmax(DeviceKind kind);
std::unique_ptr<OpKernel<WeightsValue>> make_gpu_weights_value(DeviceKind kind);
std::unique_ptr<OpKernel<LatentAppend>> make_gpu_latent_append(DeviceKind kind);
std::unique_ptr<HeadMatmulKernel> make_gpu_head_matmul(DeviceKind kind);
std::unique_ptr<OpKernel<LatentExpand>> make_gpu_latent_expand(DeviceKind kind);
std::unique_ptr<OpKernel<CopyHeads>> make_gpu_copy_heads(DeviceKind kind);

// Attention: fused; as separate steps; with split KV for steps of one row a sequence; with split KV for any step; for a
// latent plane; for a latent plane on matrix cores.
std::unique_ptr<AttentionBackend> make_gpu_flash_attention(DeviceKind kind);
std::unique_ptr<AttentionBackend> make_gpu_composed_attention(DeviceKind kind);
std::unique_ptr<AttentionBackend> make_gpu_paged_attention(DeviceKind kind);
std::unique_ptr<AttentionBackend> make_gpu_paged_rows_attention(DeviceKind kind);
std::unique_ptr<AttentionBackend> make_gpu_latent_attention(DeviceKind kind);
std::unique_ptr<AttentionBackend> make_gpu_latent_matrix_attention(DeviceKind kind);

// AMD: RDNA3, RDNA4 and CDNA.

/// "amd_decode": steps of one row a sequence, head_dim a multiple of 8 up to 256, KV f16, bf16 and q8_0, over the pages of
/// "gpu".
std::unique_ptr<AttentionBackend> make_amd_attention_decode();
/// "amd_prefill": steps of several rows a sequence at head_dim 192, 256 and 512, KV f16 and bf16, over the pages of "gpu".
std::unique_ptr<AttentionBackend> make_amd_attention_prefill();

// NVIDIA's compute capability 9.0.
std::unique_ptr<AttentionBackend> make_hopper_attention_prefill();  ///< "hopper_prefill"
std::unique_ptr<AttentionBackend> make_hopper_attention_decode();   ///< "hopper_decode"
std::unique_ptr<AttentionBackend> make_hopper_latent_decode();      ///< "hopper_latent"

}  // namespace rocmforge
