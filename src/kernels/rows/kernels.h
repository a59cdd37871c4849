#pragma once

#include <memory>

#include "ops/kernel_registry.h"

// The kernels of embedding, norms, rotation with the append of K and V, and the elementwise operations, by family.

namespace rocmforge {

struct CpuBodies;

// Plain scalar code that sums in double: the definition that every other kernel is compared with, and the kernel of last
// resort.
std::unique_ptr<OpKernel<EmbeddingRows>> make_reference_embedding();
std::unique_ptr<OpKernel<RmsNorm>> make_reference_rms_norm();
std::unique_ptr<OpKernel<LayerNorm>> make_reference_layer_norm();
std::unique_ptr<OpKernel<RopeAppend>> make_reference_rope_append();
std::unique_ptr<OpKernel<GatedActivation>> make_reference_gated_activation();
std::unique_ptr<OpKernel<ResidualAdd>> make_reference_residual_add();
std::unique_ptr<OpKernel<Dequantize>> make_reference_dequantize();
std::unique_ptr<OpKernel<DequantizeRmsNorm>> make_reference_dequantize_rms_norm();
std::unique_ptr<OpKernel<GatherRows>> make_reference_gather_rows();
std::unique_ptr<OpKernel<OutputGate>> make_reference_output_gate();
std::unique_ptr<OpKernel<OverwriteRows>> make_reference_overwrite_rows();
std::unique_ptr<OpKernel<AllReduce>> make_reference_all_reduce();
std::unique_ptr<OpKernel<MixStreams>> make_reference_mix_streams();
std::unique_ptr<OpKernel<CutRows>> make_reference_cut_rows();

// CPU: one kernel for each instruction set; `bodies` outlive it.
std::unique_ptr<OpKernel<EmbeddingRows>>
make_cpu_embedding();                                        ///< "cpu": dequantisation is the same for every instruction set
std::unique_ptr<OpKernel<AllReduce>> make_cpu_all_reduce();  ///< "cpu": the compiler makes vectors of its loop
std::unique_ptr<OpKernel<MixStreams>> make_cpu_mix_streams();  ///< likewise, as the next
std::unique_ptr<OpKernel<CutRows>> make_cpu_cut_rows();
std::unique_ptr<OpKernel<RmsNorm>> make_cpu_rms_norm(const CpuBodies& bodies);
std::unique_ptr<OpKernel<GatedActivation>> make_cpu_gated_activation(const CpuBodies& bodies);
std::unique_ptr<OpKernel<OutputGate>> make_cpu_output_gate(const CpuBodies& bodies);
std::unique_ptr<OpKernel<RopeAppend>> make_cpu_rope_append(const CpuBodies& bodies);

// Portable, for DeviceKind::hip or cuda.
std::unique_ptr<OpKernel<EmbeddingRows>> make_gpu_embedding(DeviceKind kind);
std::unique_ptr<OpKernel<RmsNorm>> make_gpu_rms_norm(DeviceKind kind);
std::unique_ptr<OpKernel<LayerNorm>> make_gpu_layer_norm(DeviceKind kind);
std::unique_ptr<OpKernel<RopeAppend>> make_gpu_rope_append(DeviceKind kind);
std::unique_ptr<OpKernel<GatedActivation>> make_gpu_gated_activation(DeviceKind kind);
std::unique_ptr<OpKernel<ResidualAdd>> make_gpu_residual_add(DeviceKind kind);
std::unique_ptr<OpKernel<Dequantize>> make_gpu_dequantize(DeviceKind kind);
std::unique_ptr<OpKernel<DequantizeRmsNorm>> make_gpu_dequantize_rms_norm(DeviceKind kind);
std::unique_ptr<OpKernel<GatherRows>> make_gpu_gather_rows(DeviceKind kind);
std::unique_ptr<OpKernel<OutputGate>> make_gpu_output_gate(DeviceKind kind);
std::unique_ptr<OpKernel<OverwriteRows>> make_gpu_overwrite_rows(DeviceKind kind);
std::unique_ptr<OpKernel<AllReduce>> make_gpu_all_reduce(DeviceKind kind);
std::unique_ptr<OpKernel<RankExchange>> make_gpu_rank_exchange(DeviceKind kind);
std::unique_ptr<OpKernel<MixStreams>> make_gpu_mix_streams(DeviceKind kind);
std::unique_ptr<OpKernel<CutRows>> make_gpu_cut_rows(DeviceKind kind);

}  // namespace rocmforge
