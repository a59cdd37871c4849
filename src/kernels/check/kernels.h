#pragma once

#include <memory>

#include "ops/kernel_registry.h"

namespace rocmforge {

// Plain kernels for DeviceKind::hip or cuda: one output element, or one part of a state or row, a thread, sums in double.
// Other kernels are compared with them on the device itself, at any size.
std::unique_ptr<AttentionBackend> make_check_attention(DeviceKind kind);
std::unique_ptr<MatmulKernel> make_check_matmul(DeviceKind kind);
std::unique_ptr<ExpertMatmulKernel> make_check_expert_matmul(DeviceKind kind);
std::unique_ptr<OpKernel<GatedDeltaNet>> make_check_delta_net(DeviceKind kind);
std::unique_ptr<OpKernel<SsmScan>> make_check_ssm_scan(DeviceKind kind);
std::unique_ptr<OpKernel<SelectiveScan>> make_check_selective_scan(DeviceKind kind);
std::unique_ptr<OpKernel<CausalConv>> make_check_causal_conv(DeviceKind kind);
std::unique_ptr<OpKernel<RopeAppend>> make_check_rope_append(DeviceKind kind);
std::unique_ptr<OpKernel<LatentAppend>> make_check_latent_append(DeviceKind kind);
std::unique_ptr<OpKernel<LatentExpand>> make_check_latent_expand(DeviceKind kind);
std::unique_ptr<HeadMatmulKernel> make_check_head_matmul(DeviceKind kind);
std::unique_ptr<OpKernel<RmsNorm>> make_check_rms_norm(DeviceKind kind);
std::unique_ptr<OpKernel<LayerNorm>> make_check_layer_norm(DeviceKind kind);
std::unique_ptr<OpKernel<GatedActivation>> make_check_gated_activation(DeviceKind kind);
std::unique_ptr<OpKernel<ResidualAdd>> make_check_residual_add(DeviceKind kind);
std::unique_ptr<OpKernel<OutputGate>> make_check_output_gate(DeviceKind kind);
std::unique_ptr<OpKernel<GatherRows>> make_check_gather_rows(DeviceKind kind);
std::unique_ptr<OpKernel<OverwriteRows>> make_check_overwrite_rows(DeviceKind kind);
std::unique_ptr<OpKernel<MixStreams>> make_check_mix_streams(DeviceKind kind);
std::unique_ptr<OpKernel<CutRows>> make_check_cut_rows(DeviceKind kind);
std::unique_ptr<OpKernel<CopyHeads>> make_check_copy_heads(DeviceKind kind);
std::unique_ptr<OpKernel<EmbeddingRows>> make_check_embedding(DeviceKind kind);
std::unique_ptr<OpKernel<Dequantize>> make_check_dequantize(DeviceKind kind);
std::unique_ptr<OpKernel<DequantizeRmsNorm>> make_check_dequantize_rms_norm(DeviceKind kind);
std::unique_ptr<OpKernel<RouteTokens>> make_check_route_tokens(DeviceKind kind);
std::unique_ptr<RouteRowsKernel> make_check_route_rows(DeviceKind kind);
std::unique_ptr<OpKernel<SampleTokens>> make_check_sample(DeviceKind kind);
std::unique_ptr<OpKernel<ReplicateKv>> make_check_replicate_kv(DeviceKind kind);
std::unique_ptr<OpKernel<QueryKey>> make_check_query_key(DeviceKind kind);
std::unique_ptr<OpKernel<Scale>> make_check_scale(DeviceKind kind);
std::unique_ptr<OpKernel<CausalMask>> make_check_causal_mask(DeviceKind kind);
std::unique_ptr<OpKernel<RowSoftmax>> make_check_row_softmax(DeviceKind kind);
std::unique_ptr<OpKernel<WeightsValue>> make_check_weights_value(DeviceKind kind);

}  // namespace rocmforge
