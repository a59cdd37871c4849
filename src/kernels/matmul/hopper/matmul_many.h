#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "kernels/matmul/hopper/matmul_tiles_args.h"
#include "ops/matmul.h"

namespace rocmforge::hopper {

/// The activation of a gated call.
Gate gate_of(const Matmul::Args& call);

/// Bytes of workspace of run_matmul_many, for that many tokens or fewer.
std::size_t matmul_many_workspace_bytes(std::int64_t tokens, std::int64_t k);

/// Products of a call whose weights all have the layout of weight_layout.h, with more tokens than the matrix-vector kernels
/// take, and with any neighbours. A product is summed in segments of k, in an order that depends on k and on the kernel,
/// which the number of tokens selects.
void run_matmul_many(const Matmul::Args& call, Stream& stream);

}  // namespace rocmforge::hopper
