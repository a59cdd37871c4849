#pragma once

#include <memory>

#include "kernels/check/arguments/arguments.h"
#include "ops/kernel_registry.h"

namespace rocmforge {

// Plain scalar code that sums in double: the definition every other kernel is compared with, and the kernel of last resort.
std::unique_ptr<OpKernel<EmbeddingRows>> make_reference_embedding();
std::unique_ptr<OpKernel<RmsNorm>> make_reference_rms_norm();
std::unique_ptr<OpKernel<LayerNorm>> make_reference_layer_norm();
std::unique_ptr<MatmulKernel> make_reference_matmul();
std::unique_ptr<OpKernel<RopeAppend>> make_reference_rope_append();
std::unique_ptr<AttentionBackend> make_reference_attention();
std::unique_ptr<OpKernel<GatedActivation>> make_reference_gated_activation();
std::unique_ptr<OpKernel<SampleTokens>> make_reference_sample();
std::unique_ptr<OpKernel<ResidualAdd>> make_reference_residual_add();
std::unique_ptr<OpKernel<ReplicateKv>> make_reference_replicate_kv();
std::unique_ptr<OpKernel<QueryKey>> make_reference_query_key();
std::unique_ptr<OpKernel<Scale>> make_reference_scale();
std::unique_ptr<OpKernel<CausalMask>> make_reference_causal_mask();
std::unique_ptr<OpKernel<RowSoftmax>> make_reference_row_softmax();
std::unique_ptr<OpKernel<WeightsValue>> make_reference_weights_value();
std::unique_ptr<OpKernel<Dequantize>> make_reference_dequantize();
std::unique_ptr<OpKernel<DequantizeRmsNorm>> make_reference_dequantize_rms_norm();
std::unique_ptr<OpKernel<GatherRows>> make_reference_gather_rows();
std::unique_ptr<OpKernel<RouteTokens>> make_reference_route_tokens();
std::unique_ptr<RouteRowsKernel> make_reference_route_rows();
std::unique_ptr<OpKernel<CausalConv>> make_reference_causal_conv();
std::unique_ptr<OpKernel<SsmScan>> make_reference_ssm_scan();
std::unique_ptr<OpKernel<GatedDeltaNet>> make_reference_delta_net();
std::unique_ptr<OpKernel<OutputGate>> make_reference_output_gate();
std::unique_ptr<ExpertMatmulKernel> make_reference_expert_matmul();
std::unique_ptr<OpKernel<LatentAppend>> make_reference_latent_append();
std::unique_ptr<HeadMatmulKernel> make_reference_head_matmul();
std::unique_ptr<OpKernel<LatentExpand>> make_reference_latent_expand();
std::unique_ptr<OpKernel<CopyHeads>> make_reference_copy_heads();

/// The name, device and priority of all reference kernels.
template <class Interface>
class ReferenceKernel : public Interface {
 public:
  [[nodiscard]] std::string_view name() const override { return "reference"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::reference; }
};

/// A reference kernel that supports every spec that check_spec() accepts.
template <class Op>
class AnyReference : public ReferenceKernel<OpKernel<Op>> {
 public:
  [[nodiscard]] Support supports(const typename Op::Spec& spec, const DeviceInfo&) const override {
    return check_spec(spec);
  }
};

}  // namespace rocmforge
