#pragma once

#include "kernels/launch/cpu/body/bodies.h"

/// The functions that fill a BodyTable, in the order of its fields.
namespace rocmforge::ROCMFORGE_ISA {

void exponential_array(const float* x, int64_t count, float* out);
void rms_norm(const float* x, const float* weight, int64_t dim, float eps, float* out);
void silu_gate(const float* gate, const float* up, int64_t width, float* out);
void gelu_tanh_gate(const float* gate, const float* up, int64_t width, float* out);
void gelu_gate(const float* gate, const float* up, int64_t width, float* out);
void gelu_quick_gate(const float* gate, const float* up, int64_t width, float* out);
void clamped_swiglu_gate(const float* gate, const float* up, int64_t width, float* out);
void relu_squared(const float* gate, const float* up, int64_t width, float* out);
void ssm_scan_row(const SsmScanHead& head);
void selective_scan_row(const SelectiveScanRow& row);
void delta_net_row(const DeltaNetRow& row);
void output_gate_head(const OutputGateHead& head);
void rope_angles(const float* inverse_frequency, int32_t pairs, float position, float magnitude, float* cosine, float* sine);
void rope_append(const RopeToken& token);
void attention_load(const AttentionUnit& unit, const AttentionScratch& scratch);
void attention_begin(const AttentionUnit& unit, int32_t row, const AttentionState& state);
void attention_chunk_softmax(const AttentionUnit& unit, const AttentionScratch& scratch, int32_t chunk,
                             const AttentionState& part);
void attention_fold(const AttentionUnit& unit, int32_t row, const AttentionState& state, const AttentionState& part);
void attention_finish(const AttentionUnit& unit, int32_t row, const AttentionState& state);

}  // namespace rocmforge::ROCMFORGE_ISA
