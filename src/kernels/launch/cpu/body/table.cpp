#include "kernels/launch/cpu/body/operations.h"

namespace rocmforge::ROCMFORGE_ISA {

const BodyTable body_table = {
    .exponential = exponential_array,
    .rms_norm = rms_norm,
    .silu_gate = silu_gate,
    .gelu_tanh_gate = gelu_tanh_gate,
    .gelu_gate = gelu_gate,
    .gelu_quick_gate = gelu_quick_gate,
    .clamped_swiglu_gate = clamped_swiglu_gate,
    .relu_squared = relu_squared,
    .ssm_scan_row = ssm_scan_row,
    .selective_scan_row = selective_scan_row,
    .delta_net_row = delta_net_row,
    .output_gate_head = output_gate_head,
    .rope_angles = rope_angles,
    .rope_append = rope_append,
    .attention_load = attention_load,
    .attention_begin = attention_begin,
    .attention_chunk = attention_chunk_softmax,
    .attention_fold = attention_fold,
    .attention_finish = attention_finish,
};

}  // namespace rocmforge::ROCMFORGE_ISA
