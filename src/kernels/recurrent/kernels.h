#pragma once

#include <memory>

#include "ops/kernel_registry.h"

// The kernels of layers with a recurrent state, by family.

namespace rocmforge {

struct CpuBodies;

// Plain scalar code that sums in double: the definition that every other kernel is compared with, and the kernel of last
// resort.
std::unique_ptr<OpKernel<CausalConv>> make_reference_causal_conv();
std::unique_ptr<OpKernel<SsmScan>> make_reference_ssm_scan();
std::unique_ptr<OpKernel<SelectiveScan>> make_reference_selective_scan();
std::unique_ptr<OpKernel<GatedDeltaNet>> make_reference_delta_net();

// CPU: one kernel for each instruction set; `bodies` outlive it.
std::unique_ptr<OpKernel<CausalConv>> make_cpu_causal_conv(const CpuBodies& bodies);
std::unique_ptr<OpKernel<SsmScan>> make_cpu_ssm_scan(const CpuBodies& bodies);
std::unique_ptr<OpKernel<SelectiveScan>> make_cpu_selective_scan(const CpuBodies& bodies);
std::unique_ptr<OpKernel<GatedDeltaNet>> make_cpu_delta_net(const CpuBodies& bodies);

// Portable, for DeviceKind::hip or cuda.
std::unique_ptr<OpKernel<CausalConv>> make_gpu_causal_conv(DeviceKind kind);
std::unique_ptr<OpKernel<SsmScan>> make_gpu_ssm_scan(DeviceKind kind);
std::unique_ptr<OpKernel<SelectiveScan>> make_gpu_selective_scan(DeviceKind kind);
std::unique_ptr<OpKernel<GatedDeltaNet>> make_gpu_delta_net(DeviceKind kind);

}  // namespace rocmforge
