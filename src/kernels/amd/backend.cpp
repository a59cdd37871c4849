#include "kernels/amd/backend.h"

#include "kernels/amd/attention.h"
#include "kernels/amd/experts.h"
#include "kernels/amd/matmul.h"

namespace rocmforge {

void register_amd_kernels(KernelRegistry& registry, Device* device) {
  registry.add<Matmul>(make_amd_matmul());
  registry.add<Matmul>(make_amd_dense_matmul(device));
  registry.add<Attention>(make_amd_attention_decode());
  registry.add<Attention>(make_amd_attention_prefill());
  registry.add<ExpertMatmul>(make_amd_expert_matmul());
}

}  // namespace rocmforge
