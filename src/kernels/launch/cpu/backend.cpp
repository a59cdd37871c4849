#include "kernels/launch/cpu/backend.h"

#include "kernels/launch/cpu/kernels.h"
#include "kernels/matmul/cpu/matmul.h"

namespace rocmforge {

void register_cpu_kernels(KernelRegistry& registry) {
  registry.add<EmbeddingRows>(make_cpu_embedding());
  for (const CpuBodies& bodies : cpu_bodies()) {
    registry.add<RmsNorm>(make_cpu_rms_norm(bodies));
    registry.add<GatedActivation>(make_cpu_gated_activation(bodies));
    registry.add<CausalConv>(make_cpu_causal_conv(bodies));
    registry.add<SsmScan>(make_cpu_ssm_scan(bodies));
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

}  // namespace rocmforge
