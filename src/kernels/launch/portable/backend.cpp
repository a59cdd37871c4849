#include "kernels/launch/portable/backend.h"

#include "kernels/launch/portable/kernels.h"
#include "kernels/matmul/portable/matmul_kernels.h"

namespace rocmforge {

void register_gpu_kernels(KernelRegistry& registry, DeviceKind kind, Device* device) {
  registry.add<EmbeddingRows>(make_gpu_embedding(kind));
  registry.add<RmsNorm>(make_gpu_rms_norm(kind));
  registry.add<LayerNorm>(make_gpu_layer_norm(kind));
  registry.add<Matmul>(make_gpu_matmul(kind));
  registry.add<Matmul>(make_gpu_blas_matmul(kind, device));
  registry.add<RopeAppend>(make_gpu_rope_append(kind));
  registry.add<Attention>(make_gpu_paged_attention(kind));
  registry.add<Attention>(make_gpu_flash_attention(kind));
  registry.add<Attention>(make_gpu_composed_attention(kind));
  registry.add<Attention>(make_gpu_paged_rows_attention(kind));
  registry.add<Attention>(make_gpu_latent_attention(kind));
  registry.add<Attention>(make_gpu_latent_matrix_attention(kind));
  registry.add<GatedActivation>(make_gpu_gated_activation(kind));
  registry.add<ResidualAdd>(make_gpu_residual_add(kind));
  registry.add<ReplicateKv>(make_gpu_replicate_kv(kind));
  registry.add<QueryKey>(make_gpu_query_key(kind));
  registry.add<Scale>(make_gpu_scale(kind));
  registry.add<CausalMask>(make_gpu_causal_mask(kind));
  registry.add<RowSoftmax>(make_gpu_row_softmax(kind));
  registry.add<WeightsValue>(make_gpu_weights_value(kind));
  registry.add<Dequantize>(make_gpu_dequantize(kind));
  registry.add<DequantizeRmsNorm>(make_gpu_dequantize_rms_norm(kind));
  registry.add<GatherRows>(make_gpu_gather_rows(kind));
  registry.add<SampleTokens>(make_gpu_sample(kind));
  registry.add<RouteTokens>(make_gpu_route_tokens(kind));
  registry.add<RouteRows>(make_gpu_route_rows(kind));
  registry.add<CausalConv>(make_gpu_causal_conv(kind));
  registry.add<SsmScan>(make_gpu_ssm_scan(kind));
  registry.add<GatedDeltaNet>(make_gpu_delta_net(kind));
  registry.add<OutputGate>(make_gpu_output_gate(kind));
  registry.add<ExpertMatmul>(make_gpu_expert_matmul(kind));
  registry.add<LatentAppend>(make_gpu_latent_append(kind));
  registry.add<HeadMatmul>(make_gpu_head_matmul(kind));
  registry.add<LatentExpand>(make_gpu_latent_expand(kind));
  registry.add<CopyHeads>(make_gpu_copy_heads(kind));
}

}  // namespace rocmforge
