#include "models/plan/operation_bytes.h"

namespace rocmforge {
namespace {
std::size_t floats(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }
}  // namespace

std::size_t decode_bytes(const EmbeddingRows::Spec& spec) {
  return row_bytes(spec.table, spec.hidden) + floats(spec.hidden);
}

std::size_t decode_bytes(const RmsNorm::Spec& spec) { return floats(2 * spec.dim * spec.groups); }

std::size_t decode_bytes(const LayerNorm::Spec& spec) { return floats(2 * spec.dim * spec.groups); }

std::size_t decode_bytes(const RopeAppend::Spec& spec) {
  const std::int64_t q = std::int64_t{spec.q_heads} * spec.head_dim;
  const std::int64_t kv = std::int64_t{spec.layout.kv_heads} * spec.head_dim;
  return floats(2 * q + 2 * kv) + kv_row_bytes(spec.layout.dtype, kv);
}

std::size_t decode_bytes(const Attention::Spec& spec) {
  return row_bytes(spec.io_dtype, std::int64_t{spec.q_heads} * (spec.head_dim + spec.out_dim()));
}

std::size_t decode_bytes(const GatedActivation::Spec& spec) { return floats((spec.gated ? 3 : 2) * spec.width); }

std::size_t decode_bytes(const OverwriteRows::Spec& spec) { return floats(2 * spec.dim); }
std::size_t decode_bytes(const MixStreams::Spec& spec) {
  return floats((2 * MixStreams::streams + (spec.has_row() ? 2 : 1)) * spec.dim);
}
std::size_t decode_bytes(const CutRows::Spec& spec) { return floats(2 * spec.width); }
std::size_t decode_bytes(const GatherRows::Spec& spec) { return floats(2 * spec.dim); }

std::size_t decode_bytes(const SampleTokens::Spec& spec) { return floats(spec.vocab) + sizeof(std::int32_t); }

std::size_t decode_bytes(const RouteTokens::Spec& spec) { return floats(spec.logits() + 2 * spec.taken()); }

std::size_t decode_bytes(const RouteRows::Spec& spec) { return floats(2 * spec.hidden + 2 * spec.route.taken()); }

std::size_t decode_bytes(const CausalConv::Spec& spec) {
  return floats(spec.input_width() + spec.channels + 2 * spec.state_elems());
}

std::size_t decode_bytes(const SsmScan::Spec& spec) {
  return floats(spec.input_width() + 2 * spec.inner() + spec.heads + 2 * spec.state_elems());
}

std::size_t decode_bytes(const SelectiveScan::Spec& spec) {
  return floats(4 * spec.channels + 2 * spec.state_size + 2 * spec.state_elems());
}

std::size_t decode_bytes(const GatedDeltaNet::Spec& spec) {
  return floats(spec.input_width() + spec.values() + spec.value_heads * (1 + spec.gates_of_head()) + 2 * spec.state_elems());
}
std::size_t decode_bytes(const OutputGate::Spec& spec) { return floats(2 * spec.width() + spec.gates()); }
std::size_t decode_bytes(const LatentAppend::Spec& spec) {
  const std::int64_t turned = 2 * std::int64_t{spec.q_heads} * spec.n_rot;
  return floats(turned + spec.layout.head_dim + spec.layout.value_dim) +
         row_bytes(spec.layout.dtype.k, spec.layout.head_dim);
}

std::size_t decode_bytes(const HeadMatmul::Spec& spec) { return floats(spec.heads * (spec.n + spec.k + 2 * spec.tail)); }

std::size_t decode_bytes(const ResidualAdd::Spec&) { return 0; }

std::size_t decode_bytes(const AllReduce::Spec&) { return 0; }

std::size_t decode_bytes(const Scale::Spec&) { return 0; }

std::size_t kv_bytes_per_position(const Attention::Spec& spec) {
  return kv_row_bytes(spec.kv_dtype, std::int64_t{spec.kv_heads} * spec.head_dim, spec.value_dim > 0);
}

}  // namespace rocmforge
