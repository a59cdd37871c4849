#pragma once

#include <memory>

#include "ops/kernel_registry.h"

namespace rocmforge {

// Plain kernels for DeviceKind::hip or cuda: one output element, or one part of a state, a thread, sums in double. Other
// kernels are compared with them on the device itself, at any size.
std::unique_ptr<AttentionBackend> make_check_attention(DeviceKind kind);
std::unique_ptr<MatmulKernel> make_check_matmul(DeviceKind kind);
std::unique_ptr<ExpertMatmulKernel> make_check_expert_matmul(DeviceKind kind);
std::unique_ptr<OpKernel<GatedDeltaNet>> make_check_delta_net(DeviceKind kind);
std::unique_ptr<OpKernel<SsmScan>> make_check_ssm_scan(DeviceKind kind);
std::unique_ptr<OpKernel<CausalConv>> make_check_causal_conv(DeviceKind kind);

}  // namespace rocmforge
