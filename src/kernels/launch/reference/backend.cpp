#include "kernels/launch/reference/backend.h"

#include "kernels/launch/reference/kernels.h"

namespace rocmforge {

void register_reference_kernels(KernelRegistry& registry) {
  registry.add<EmbeddingRows>(make_reference_embedding());
  registry.add<RmsNorm>(make_reference_rms_norm());
  registry.add<LayerNorm>(make_reference_layer_norm());
  registry.add<Matmul>(make_reference_matmul());
  registry.add<RopeAppend>(make_reference_rope_append());
  registry.add<Attention>(make_reference_attention());
  registry.add<GatedActivation>(make_reference_gated_activation());
  registry.add<SampleTokens>(make_reference_sample());
  registry.add<ResidualAdd>(make_reference_residual_add());
  registry.add<ReplicateKv>(make_reference_replicate_kv());
  registry.add<QueryKey>(make_reference_query_key());
  registry.add<Scale>(make_reference_scale());
  registry.add<CausalMask>(make_reference_causal_mask());
  registry.add<RowSoftmax>(make_reference_row_softmax());
  registry.add<WeightsValue>(make_reference_weights_value());
  registry.add<Dequantize>(make_reference_dequantize());
  registry.add<DequantizeRmsNorm>(make_reference_dequantize_rms_norm());
  registry.add<GatherRows>(make_reference_gather_rows());
  registry.add<RouteTokens>(make_reference_route_tokens());
  registry.add<RouteRows>(make_reference_route_rows());
  registry.add<CausalConv>(make_reference_causal_conv());
  registry.add<SsmScan>(make_reference_ssm_scan());
  registry.add<GatedDeltaNet>(make_reference_delta_net());
  registry.add<OutputGate>(make_reference_output_gate());
  registry.add<ExpertMatmul>(make_reference_expert_matmul());
  registry.add<LatentAppend>(make_reference_latent_append());
  registry.add<HeadMatmul>(make_reference_head_matmul());
  registry.add<LatentExpand>(make_reference_latent_expand());
  registry.add<CopyHeads>(make_reference_copy_heads());
}

}  // namespace rocmforge
