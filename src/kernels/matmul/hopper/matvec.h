#pragma once

#include "device/device.h"
#include "ops/matmul.h"

namespace rocmforge::hopper {

/// The kinds of weights that one launch for few tokens multiplies: those of weight_layout.h, F16, or BF16.
enum class MatvecKind { packed, f16, bf16, none };
MatvecKind matvec_kind(DType type);

/// Bytes of scratch memory that a call with up to most_matvec_tokens tokens needs.
std::size_t matvec_workspace_bytes(std::int64_t tokens, std::int64_t k);

/// Computes the call's outputs of that kind, with up to most_matvec_tokens tokens and the call's neighbours. With a gate
/// whose two weights are of different kinds the gate's kind is called first: it writes its product to outputs[0].out, where
/// the call for the other kind reads it.
void run_matvec(MatvecKind kind, const Matmul::Args& call, Stream& stream);

}  // namespace rocmforge::hopper
