#pragma once

#include <memory>

#include "ops/kernel_registry.h"

namespace rocmforge {

// Plain scalar code that sums in double: the definition every other kernel is compared with, and the kernel of last resort.
std::unique_ptr<OpKernel<EmbeddingRows>> make_reference_embedding();
std::unique_ptr<OpKernel<RmsNorm>> make_reference_rms_norm();
std::unique_ptr<MatmulKernel> make_reference_matmul();
std::unique_ptr<OpKernel<RopeAppend>> make_reference_rope_append();
std::unique_ptr<AttentionBackend> make_reference_attention();
std::unique_ptr<OpKernel<GatedActivation>> make_reference_gated_activation();

/// What all of them answer.
template <class Interface>
class ReferenceKernel : public Interface {
 public:
  [[nodiscard]] std::string_view name() const override { return "reference"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] int priority() const override { return 0; }
};

}  // namespace rocmforge
