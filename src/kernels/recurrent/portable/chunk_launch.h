#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "kernels/recurrent/portable/chunk_scan_args.h"
#include "ops/kv_layout.h"

namespace rocmforge {

/// Bytes of the workspace of a scan in chunks. `key_heads` and `key_dim` are those of a gated delta net, or the groups and
/// the state size of Mamba-2. Places for 2,048 tokens are enough for a step of any length.
std::size_t chunk_workspace_bytes(std::int64_t key_heads, std::int64_t value_heads, std::int64_t key_dim,
                                  std::int64_t tokens);

/// Scans the sequences of the step with at least gpu::chunk_least_rows rows. Returns whether other sequences are left. The
/// caller sets inputs, outputs, strides and heads in `args`. The workspace has chunk_workspace_bytes for all tokens of the
/// step.
[[nodiscard]] bool scan_chunks(gpu::ChunkArgs args, const RaggedBatch& batch, void* workspace, Stream& stream);

}  // namespace rocmforge
