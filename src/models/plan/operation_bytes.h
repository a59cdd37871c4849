#pragma once

#include <cstddef>

#include "ops/kernel_registry.h"

namespace rocmforge {

// Activations that one call of an operation reads and writes when one sequence decodes one token, each byte counted once:
// the least that any kernel must move. Weights, keys and values are counted apart.

std::size_t decode_bytes(const EmbeddingRows::Spec& spec);
std::size_t decode_bytes(const RmsNorm::Spec& spec);
std::size_t decode_bytes(const LayerNorm::Spec& spec);
std::size_t decode_bytes(const RopeAppend::Spec& spec);
std::size_t decode_bytes(const Attention::Spec& spec);
std::size_t decode_bytes(const GatedActivation::Spec& spec);
std::size_t decode_bytes(const GatherRows::Spec& spec);
std::size_t decode_bytes(const OverwriteRows::Spec& spec);
std::size_t decode_bytes(const MixStreams::Spec& spec);
std::size_t decode_bytes(const CutRows::Spec& spec);
std::size_t decode_bytes(const AllReduce::Spec& spec);  ///< 0: the spec has no width
std::size_t decode_bytes(const SampleTokens::Spec& spec);
std::size_t decode_bytes(const RouteTokens::Spec& spec);
std::size_t decode_bytes(const RouteRows::Spec& spec);
std::size_t decode_bytes(const CausalConv::Spec& spec);
std::size_t decode_bytes(const SsmScan::Spec& spec);
std::size_t decode_bytes(const SelectiveScan::Spec& spec);
std::size_t decode_bytes(const GatedDeltaNet::Spec& spec);
std::size_t decode_bytes(const OutputGate::Spec& spec);
std::size_t decode_bytes(const LatentAppend::Spec& spec);
std::size_t decode_bytes(const HeadMatmul::Spec& spec);
// Decode steps do not run these.
inline std::size_t decode_bytes(const LatentExpand::Spec&) { return 0; }
inline std::size_t decode_bytes(const CopyHeads::Spec&) { return 0; }
// Their specs do not give the number of elements: 0.
std::size_t decode_bytes(const ResidualAdd::Spec& spec);
std::size_t decode_bytes(const Scale::Spec& spec);

/// Keys and values that attention reads for each position it sees.
std::size_t kv_bytes_per_position(const Attention::Spec& spec);

}  // namespace rocmforge
