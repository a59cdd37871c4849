#include "kernels/cpu/body/matmul_activations.h"
#include "kernels/cpu/body/matmul_plain.h"
#include "kernels/cpu/body/matmul_quantised.h"
#include "kernels/cpu/matmul_body.h"

namespace rocmforge::ROCMFORGE_ISA {

extern const MatmulBody matmul_body;
const MatmulBody matmul_body = {quantise, multiply_quantised<>, multiply_plain, tile_groups* packed::group_rows,
                                tile_tokens};

}  // namespace rocmforge::ROCMFORGE_ISA
