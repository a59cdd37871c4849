#include "kernels/check/backend.h"

#include "kernels/check/kernels.h"

namespace rocmforge {

void register_check_kernels(KernelRegistry& registry, DeviceKind kind) {
  registry.add<Attention>(make_check_attention(kind));
  registry.add<Matmul>(make_check_matmul(kind));
  registry.add<ExpertMatmul>(make_check_expert_matmul(kind));
  registry.add<GatedDeltaNet>(make_check_delta_net(kind));
  registry.add<SsmScan>(make_check_ssm_scan(kind));
  registry.add<CausalConv>(make_check_causal_conv(kind));
  registry.add<RopeAppend>(make_check_rope_append(kind));
  registry.add<LatentAppend>(make_check_latent_append(kind));
  registry.add<LatentExpand>(make_check_latent_expand(kind));
  registry.add<HeadMatmul>(make_check_head_matmul(kind));
  registry.add<RmsNorm>(make_check_rms_norm(kind));
  registry.add<LayerNorm>(make_check_layer_norm(kind));
  registry.add<GatedActivation>(make_check_gated_activation(kind));
  registry.add<ResidualAdd>(make_check_residual_add(kind));
  registry.add<OutputGate>(make_check_output_gate(kind));
  registry.add<GatherRows>(make_check_gather_rows(kind));
  registry.add<CopyHeads>(make_check_copy_heads(kind));
  registry.add<EmbeddingRows>(make_check_embedding(kind));
  registry.add<Dequantize>(make_check_dequantize(kind));
  registry.add<DequantizeRmsNorm>(make_check_dequantize_rms_norm(kind));
  registry.add<RouteTokens>(make_check_route_tokens(kind));
  registry.add<RouteRows>(make_check_route_rows(kind));
  registry.add<SampleTokens>(make_check_sample(kind));
  registry.add<ReplicateKv>(make_check_replicate_kv(kind));
  registry.add<QueryKey>(make_check_query_key(kind));
  registry.add<Scale>(make_check_scale(kind));
  registry.add<CausalMask>(make_check_causal_mask(kind));
  registry.add<RowSoftmax>(make_check_row_softmax(kind));
  registry.add<WeightsValue>(make_check_weights_value(kind));
}

}  // namespace rocmforge
