#include "kernels/register_all.h"

#include "kernels/attention/kernels.h"
#include "kernels/check/kernels.h"
#include "kernels/experts/kernels.h"
#include "kernels/launch/cpu/isa.h"
#include "kernels/matmul/amd/product_groups.h"
#include "kernels/matmul/kernels.h"
#include "kernels/recurrent/kernels.h"
#include "kernels/rows/kernels.h"
#include "kernels/sample/kernels.h"

namespace rocmforge {
namespace {

void register_cpu_kernels(KernelRegistry& registry) {
  registry.add<EmbeddingRows>(make_cpu_embedding());
  registry.add<AllReduce>(make_cpu_all_reduce());
  registry.add<MixStreams>(make_cpu_mix_streams());
  registry.add<CutRows>(make_cpu_cut_rows());
  for (const CpuBodies& bodies : cpu_bodies()) {
    registry.add<RmsNorm>(make_cpu_rms_norm(bodies));
    registry.add<GatedActivation>(make_cpu_gated_activation(bodies));
    registry.add<CausalConv>(make_cpu_causal_conv(bodies));
    registry.add<SsmScan>(make_cpu_ssm_scan(bodies));
    registry.add<SelectiveScan>(make_cpu_selective_scan(bodies));
    registry.add<GatedDeltaNet>(make_cpu_delta_net(bodies));
    registry.add<OutputGate>(make_cpu_output_gate(bodies));
    registry.add<RopeAppend>(make_cpu_rope_append(bodies));
    registry.add<Attention>(make_cpu_attention(bodies));
  }
  for (auto& matmul : make_cpu_matmuls()) {
    registry.add<Matmul>(std::move(matmul));
  }
  for (auto& matmul : make_cpu_expert_matmuls()) {
    registry.add<ExpertMatmul>(std::move(matmul));
  }
  for (auto& matmul : make_cpu_head_matmuls()) {
    registry.add<HeadMatmul>(std::move(matmul));
  }
}

/// Correct on every architecture that has code objects.
void register_portable_kernels(KernelRegistry& registry, DeviceKind kind, Device* device) {
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
  registry.add<OverwriteRows>(make_gpu_overwrite_rows(kind));
  registry.add<MixStreams>(make_gpu_mix_streams(kind));
  registry.add<CutRows>(make_gpu_cut_rows(kind));
  registry.add<AllReduce>(make_gpu_all_reduce(kind));
  registry.add<RankExchange>(make_gpu_rank_exchange(kind));
  registry.add<SampleTokens>(make_gpu_sample(kind));
  registry.add<RouteTokens>(make_gpu_route_tokens(kind));
  registry.add<RouteRows>(make_gpu_route_rows(kind));
  registry.add<CausalConv>(make_gpu_causal_conv(kind));
  registry.add<SsmScan>(make_gpu_ssm_scan(kind));
  registry.add<SelectiveScan>(make_gpu_selective_scan(kind));
  registry.add<GatedDeltaNet>(make_gpu_delta_net(kind));
  registry.add<OutputGate>(make_gpu_output_gate(kind));
  registry.add<ExpertMatmul>(make_gpu_expert_matmul(kind));
  registry.add<LatentAppend>(make_gpu_latent_append(kind));
  registry.add<HeadMatmul>(make_gpu_head_matmul(kind));
  registry.add<LatentExpand>(make_gpu_latent_expand(kind));
  registry.add<CopyHeads>(make_gpu_copy_heads(kind));
}

/// What other kernels are compared with on the device itself.
void register_check_kernels(KernelRegistry& registry, DeviceKind kind) {
  registry.add<Attention>(make_check_attention(kind));
  registry.add<Matmul>(make_check_matmul(kind));
  registry.add<ExpertMatmul>(make_check_expert_matmul(kind));
  registry.add<GatedDeltaNet>(make_check_delta_net(kind));
  registry.add<SsmScan>(make_check_ssm_scan(kind));
  registry.add<SelectiveScan>(make_check_selective_scan(kind));
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
  registry.add<OverwriteRows>(make_check_overwrite_rows(kind));
  registry.add<MixStreams>(make_check_mix_streams(kind));
  registry.add<CutRows>(make_check_cut_rows(kind));
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

/// For RDNA3, RDNA4 and CDNA.
void register_amd_kernels(KernelRegistry& registry, Device* device) {
  registry.add<Matmul>(make_amd_matmul());
  registry.add<Matmul>(make_amd_dense_matmul(device));
  registry.add<Attention>(make_amd_attention_decode());
  registry.add<Attention>(make_amd_attention_prefill());
  registry.add<RouteRows>(make_amd_route_rows());
  registry.add<ExpertMatmul>(make_amd_expert_matmul());
}

/// For NVIDIA's compute capability 9.0.
void register_hopper_kernels(KernelRegistry& registry, Device* device) {
  registry.add<Attention>(make_hopper_attention_prefill());
  registry.add<Attention>(make_hopper_attention_decode());
  registry.add<Attention>(make_hopper_latent_decode());
  registry.add<Matmul>(make_hopper_matmul());
  registry.add<Matmul>(make_hopper_dense_matmul(device));
  registry.add<RouteRows>(make_hopper_route_rows());
  registry.add<ExpertMatmul>(make_hopper_expert_matmul());
}

}  // namespace

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
  registry.add<OverwriteRows>(make_reference_overwrite_rows());
  registry.add<MixStreams>(make_reference_mix_streams());
  registry.add<CutRows>(make_reference_cut_rows());
  registry.add<AllReduce>(make_reference_all_reduce());
  registry.add<RouteTokens>(make_reference_route_tokens());
  registry.add<RouteRows>(make_reference_route_rows());
  registry.add<CausalConv>(make_reference_causal_conv());
  registry.add<SsmScan>(make_reference_ssm_scan());
  registry.add<SelectiveScan>(make_reference_selective_scan());
  registry.add<GatedDeltaNet>(make_reference_delta_net());
  registry.add<OutputGate>(make_reference_output_gate());
  registry.add<ExpertMatmul>(make_reference_expert_matmul());
  registry.add<LatentAppend>(make_reference_latent_append());
  registry.add<HeadMatmul>(make_reference_head_matmul());
  registry.add<LatentExpand>(make_reference_latent_expand());
  registry.add<CopyHeads>(make_reference_copy_heads());
}

void register_all_kernels(KernelRegistry& registry, Device* device) {
  const auto if_kind = [device](DeviceKind kind) {
    return device != nullptr && device->info().kind == kind ? device : nullptr;
  };
  register_reference_kernels(registry);
  register_cpu_kernels(registry);
  register_portable_kernels(registry, DeviceKind::hip, if_kind(DeviceKind::hip));
  register_portable_kernels(registry, DeviceKind::cuda, if_kind(DeviceKind::cuda));
  register_check_kernels(registry, DeviceKind::hip);
  register_check_kernels(registry, DeviceKind::cuda);
  register_amd_kernels(registry, if_kind(DeviceKind::hip));
  register_hopper_kernels(registry, if_kind(DeviceKind::cuda));
}

std::span<const double> product_group_choices() { return amd::product_group_choices; }

void choose_product_groups(Device& device, double a_unit) { amd::set_product_groups(device, a_unit); }

}  // namespace rocmforge
