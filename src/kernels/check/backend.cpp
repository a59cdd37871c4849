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
}

}  // namespace rocmforge
