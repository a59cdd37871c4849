#include "kernels/launch/amd/backend.h"

#include "kernels/attention/amd/attention.h"
#include "kernels/experts/amd/experts.h"
#include "kernels/matmul/amd/matmul.h"

namespace rocmforge {

void register_amd_kernels(KernelRegistry& registry, Device* device) {
  registry.add<Matmul>(make_amd_matmul());
  registry.add<Matmul>(make_amd_dense_matmul(device));
  registry.add<Attention>(make_amd_attention_decode());
  registry.add<Attention>(make_amd_attention_prefill());
  registry.add<ExpertMatmul>(make_amd_expert_matmul());
}

}  // namespace rocmforge
