#pragma once

#include <memory>

#include "kernels/launch/cpu/isa.h"
#include "ops/kernel_registry.h"

namespace rocmforge {

std::unique_ptr<OpKernel<EmbeddingRows>>
make_cpu_embedding();  ///< "cpu": dequantisation is the same for every instruction set

// One kernel for each instruction set; `bodies` outlive it.
std::unique_ptr<OpKernel<RmsNorm>> make_cpu_rms_norm(const CpuBodies& bodies);
std::unique_ptr<OpKernel<GatedActivation>> make_cpu_gated_activation(const CpuBodies& bodies);
std::unique_ptr<OpKernel<CausalConv>> make_cpu_causal_conv(const CpuBodies& bodies);
std::unique_ptr<OpKernel<SsmScan>> make_cpu_ssm_scan(const CpuBodies& bodies);
std::unique_ptr<OpKernel<GatedDeltaNet>> make_cpu_delta_net(const CpuBodies& bodies);
std::unique_ptr<OpKernel<OutputGate>> make_cpu_output_gate(const CpuBodies& bodies);
std::unique_ptr<OpKernel<RopeAppend>> make_cpu_rope_append(const CpuBodies& bodies);
std::unique_ptr<AttentionBackend> make_cpu_attention(const CpuBodies& bodies);

}  // namespace rocmforge
