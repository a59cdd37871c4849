#pragma once

#include "device/device.h"
#include "ops/matmul.h"

namespace rocmforge::hopper {

/// Weights that one launch of few tokens multiplies: those of weight_layout.h, or F16, or BF16.
enum class MatvecKind { packed, f16, bf16, none };
MatvecKind matvec_kind(DType type);

/// Scratch memory that a call with up to most_matvec_tokens tokens needs.
std::size_t matvec_workspace_bytes(std::int64_t tokens, std::int64_t k);

/// Products of a call's outputs of that kind, with up to most_matvec_tokens tokens and what neighbours the call has. With a
/// gate whose two weights are of different kinds the call is made for the gate first: it writes outputs[0].out plain, and
/// the call for the other one takes it from there.
void run_matvec(MatvecKind kind, const Matmul::Args& call, Stream& stream);

}  // namespace rocmforge::hopper
