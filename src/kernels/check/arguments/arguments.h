#pragma once

#include "ops/kernel_registry.h"

namespace rocmforge {

/// Preconditions of every kernel of an operation; each kernel's run() begins with them. Each throws LogicError that names
/// the operation, the argument and what is wrong with it ("attention: block table of sequence 1 names block 7 of 4").
/// `device` is the kernel's own. Pointers and sizes are checked on every device; the contents of arrays only on the CPU,
/// where the host can read them, at the cost of a few integers per token. For a GPU, BatchPlan::validate checks the arrays
/// before they are uploaded.
void check_arguments(const EmbeddingRows::Spec& spec, const EmbeddingRows::Args& args, DeviceKind device = DeviceKind::cpu);
void check_arguments(const RmsNorm::Spec& spec, const RmsNorm::Args& args);
void check_arguments(const LayerNorm::Spec& spec, const LayerNorm::Args& args);
void check_arguments(const GatedActivation::Spec& spec, const GatedActivation::Args& args);
/// `fusions`: the fusions that the kernel declares.
void check_arguments(const Matmul::Args& args, const MatmulFusions& fusions = {});
void check_arguments(const RopeAppend::Spec& spec, const RopeAppend::Args& args, DeviceKind device = DeviceKind::cpu);
/// `takes_append`: whether the kernel takes Attention::Args::append.
void check_arguments(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
                     DeviceKind device = DeviceKind::cpu, bool takes_append = false);
void check_arguments(const SampleTokens::Spec& spec, const SampleTokens::Args& args, DeviceKind device = DeviceKind::cpu);
void check_arguments(const ResidualAdd::Spec& spec, const ResidualAdd::Args& args);
void check_arguments(const Scale::Spec& spec, const Scale::Args& args);
void check_arguments(const CausalMask::Spec& spec, const CausalMask::Args& args, DeviceKind device = DeviceKind::cpu);
void check_arguments(const RowSoftmax::Spec& spec, const RowSoftmax::Args& args, DeviceKind device = DeviceKind::cpu);
void check_arguments(const QueryKey::Spec& spec, const QueryKey::Args& args, DeviceKind device = DeviceKind::cpu);
void check_arguments(const WeightsValue::Spec& spec, const WeightsValue::Args& args, DeviceKind device = DeviceKind::cpu);
void check_arguments(const ReplicateKv::Spec& spec, const ReplicateKv::Args& args, DeviceKind device = DeviceKind::cpu);
void check_arguments(const Dequantize::Spec& spec, const Dequantize::Args& args);
void check_arguments(const DequantizeRmsNorm::Spec& spec, const DequantizeRmsNorm::Args& args);
void check_arguments(const GatherRows::Spec& spec, const GatherRows::Args& args, DeviceKind device = DeviceKind::cpu);
void check_arguments(const AllReduce::Spec& spec, const AllReduce::Args& args);
void check_arguments(const RankExchange::Spec& spec, const RankExchange::Args& args);
void check_arguments(const OverwriteRows::Spec& spec, const OverwriteRows::Args& args, DeviceKind device = DeviceKind::cpu);
void check_arguments(const MixStreams::Spec& spec, const MixStreams::Args& args);
void check_arguments(const CutRows::Spec& spec, const CutRows::Args& args);
void check_arguments(const RouteTokens::Spec& spec, const RouteTokens::Args& args);
void check_arguments(const RouteRows::Spec& spec, const RouteRows::Args& args, const RouteRowsKernel& kernel);
void check_arguments(const CausalConv::Spec& spec, const CausalConv::Args& args, DeviceKind device = DeviceKind::cpu);
void check_arguments(const SsmScan::Spec& spec, const SsmScan::Args& args, DeviceKind device = DeviceKind::cpu);
void check_arguments(const SelectiveScan::Spec& spec, const SelectiveScan::Args& args, DeviceKind device = DeviceKind::cpu);
void check_arguments(const GatedDeltaNet::Spec& spec, const GatedDeltaNet::Args& args, DeviceKind device = DeviceKind::cpu);
void check_arguments(const OutputGate::Spec& spec, const OutputGate::Args& args);
void check_arguments(const ExpertMatmul::Args& args, DeviceKind device = DeviceKind::cpu);
void check_arguments(const LatentAppend::Spec& spec, const LatentAppend::Args& args, DeviceKind device = DeviceKind::cpu);
void check_arguments(const HeadMatmul::Spec& spec, const HeadMatmul::Args& args);
void check_arguments(const LatentExpand::Spec& spec, const LatentExpand::Args& args, DeviceKind device = DeviceKind::cpu);
void check_arguments(const CopyHeads::Spec& spec, const CopyHeads::Args& args);

/// The limits of a spec that all kernels share; each kernel adds its own.
[[nodiscard]] Support check_spec(const EmbeddingRows::Spec& spec);
[[nodiscard]] Support check_spec(const RmsNorm::Spec& spec);
[[nodiscard]] Support check_spec(const LayerNorm::Spec& spec);
[[nodiscard]] Support check_spec(const GatedActivation::Spec& spec);
[[nodiscard]] Support check_spec(const Matmul::Spec& spec);
[[nodiscard]] Support check_spec(const RopeAppend::Spec& spec);
[[nodiscard]] Support check_spec(const Attention::Spec& spec);
[[nodiscard]] Support check_spec(const SampleTokens::Spec& spec);
[[nodiscard]] Support check_spec(const ResidualAdd::Spec& spec);
[[nodiscard]] Support check_spec(const Scale::Spec& spec);
[[nodiscard]] Support check_spec(const CausalMask::Spec& spec);
[[nodiscard]] Support check_spec(const RowSoftmax::Spec& spec);
[[nodiscard]] Support check_spec(const QueryKey::Spec& spec);
[[nodiscard]] Support check_spec(const WeightsValue::Spec& spec);
[[nodiscard]] Support check_spec(const ReplicateKv::Spec& spec);
[[nodiscard]] Support check_spec(const Dequantize::Spec& spec);
[[nodiscard]] Support check_spec(const DequantizeRmsNorm::Spec& spec);
[[nodiscard]] Support check_spec(const GatherRows::Spec& spec);
[[nodiscard]] Support check_spec(const OverwriteRows::Spec& spec);
[[nodiscard]] Support check_spec(const AllReduce::Spec& spec);
[[nodiscard]] Support check_spec(const RankExchange::Spec& spec);
[[nodiscard]] Support check_spec(const MixStreams::Spec& spec);
[[nodiscard]] Support check_spec(const CutRows::Spec& spec);
[[nodiscard]] Support check_spec(const RouteTokens::Spec& spec);
[[nodiscard]] Support check_spec(const RouteRows::Spec& spec);
[[nodiscard]] Support check_spec(const CausalConv::Spec& spec);
[[nodiscard]] Support check_spec(const SsmScan::Spec& spec);
[[nodiscard]] Support check_spec(const SelectiveScan::Spec& spec);
[[nodiscard]] Support check_spec(const GatedDeltaNet::Spec& spec);
[[nodiscard]] Support check_spec(const OutputGate::Spec& spec);
[[nodiscard]] Support check_spec(const ExpertMatmul::Spec& spec);
[[nodiscard]] Support check_spec(const LatentAppend::Spec& spec);
[[nodiscard]] Support check_spec(const HeadMatmul::Spec& spec);
[[nodiscard]] Support check_spec(const LatentExpand::Spec& spec);
[[nodiscard]] Support check_spec(const CopyHeads::Spec& spec);

/// check_spec() for attention kernels that read V from a plane of its own: refuses a latent plane, where V is part of K.
[[nodiscard]] Support check_separate_values(const Attention::Spec& spec);
/// For kernels whose rows see nothing behind themselves.
[[nodiscard]] Support check_no_spans(const Attention::Spec& spec);
[[nodiscard]] Support check_no_chunks(const Attention::Spec& spec);

/// The token id of row `t`, -1 for none: ids[t], or the drawn token that ids[t] refers to. Reads the arrays on the host.
[[nodiscard]] inline std::int32_t embedded_token(const EmbeddingRows::Args& args, std::int64_t t) {
  const std::int32_t id = args.ids[t];
  return id < 0 && args.drawn != nullptr ? args.drawn[EmbeddingRows::drawn_token(id)] : id;
}

/// The softmax scale with its default filled in.
[[nodiscard]] float attention_scale(const Attention::Spec& spec);

}  // namespace rocmforge
