#include "kernels/launch/hopper/backend.h"

#include "kernels/launch/hopper/kernels.h"

namespace rocmforge {

void register_hopper_kernels(KernelRegistry& registry, Device* device) {
  registry.add<Attention>(make_hopper_attention_prefill());
  registry.add<Attention>(make_hopper_attention_decode());
  registry.add<Attention>(make_hopper_latent_decode());
  registry.add<Matmul>(make_hopper_matmul());
  registry.add<Matmul>(make_hopper_dense_matmul(device));
  registry.add<RouteRows>(make_hopper_route_rows());
  registry.add<ExpertMatmul>(make_hopper_expert_matmul());
}

}  // namespace rocmforge
