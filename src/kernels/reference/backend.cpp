#include "kernels/reference/backend.h"

#include "kernels/reference/kernels.h"

namespace rocmforge {

void register_reference_kernels(KernelRegistry& registry) {
  registry.add<EmbeddingRows>(make_reference_embedding());
  registry.add<RmsNorm>(make_reference_rms_norm());
  registry.add<Matmul>(make_reference_matmul());
  registry.add<RopeAppend>(make_reference_rope_append());
  registry.add<Attention>(make_reference_attention());
  registry.add<GatedActivation>(make_reference_gated_activation());
}

}  // namespace rocmforge
