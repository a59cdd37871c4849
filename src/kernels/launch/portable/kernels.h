#pragma once

#include <memory>

#include "ops/kernel_registry.h"

namespace rocmforge {

// The portable kernels of embedding, norms, rotation and the elementwise operations, for DeviceKind::hip or cuda.
std::unique_ptr<OpKernel<EmbeddingRows>> make_gpu_embedding(DeviceKind kind);
std::unique_ptr<OpKernel<RmsNorm>> make_gpu_rms_norm(DeviceKind kind);
std::unique_ptr<OpKernel<LayerNorm>> make_gpu_layer_norm(DeviceKind kind);
std::unique_ptr<OpKernel<RopeAppend>> make_gpu_rope_append(DeviceKind kind);
std::unique_ptr<OpKernel<GatedActivation>> make_gpu_gated_activation(DeviceKind kind);
std::unique_ptr<OpKernel<ResidualAdd>> make_gpu_residual_add(DeviceKind kind);
std::unique_ptr<OpKernel<Dequantize>> make_gpu_dequantize(DeviceKind kind);
std::unique_ptr<OpKernel<DequantizeRmsNorm>> make_gpu_dequantize_rms_norm(DeviceKind kind);
std::unique_ptr<OpKernel<GatherRows>> make_gpu_gather_rows(DeviceKind kind);
std::unique_ptr<OpKernel<SampleTokens>> make_gpu_sample(DeviceKind kind);
std::unique_ptr<OpKernel<CausalConv>> make_gpu_causal_conv(DeviceKind kind);
std::unique_ptr<OpKernel<SsmScan>> make_gpu_ssm_scan(DeviceKind kind);
std::unique_ptr<OpKernel<GatedDeltaNet>> make_gpu_delta_net(DeviceKind kind);
std::unique_ptr<OpKernel<OutputGate>> make_gpu_output_gate(DeviceKind kind);

std::unique_ptr<OpKernel<RouteTokens>> make_gpu_route_tokens(DeviceKind kind);
std::unique_ptr<RouteRowsKernel> make_gpu_route_rows(DeviceKind kind);
/// Up to 8 tokens every slot is computed by itself; with more, slots are sorted by expert and go through matrix tiles.
std::unique_ptr<ExpertMatmulKernel> make_gpu_expert_matmul(DeviceKind kind);

// The steps of attention.
std::unique_ptr<OpKernel<ReplicateKv>> make_gpu_replicate_kv(DeviceKind kind);
std::unique_ptr<OpKernel<QueryKey>> make_gpu_query_key(DeviceKind kind);
std::unique_ptr<OpKernel<Scale>> make_gpu_scale(DeviceKind kind);
std::unique_ptr<OpKernel<CausalMask>> make_gpu_causal_mask(DeviceKind kind);
std::unique_ptr<OpKernel<RowSoftmax>> make_gpu_row_softmax(DeviceKind kind);
std::unique_ptr<OpKernel<WeightsValue>> make_gpu_weights_value(DeviceKind kind);

// Latent attention beside Attention itself.
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

}  // namespace rocmforge
