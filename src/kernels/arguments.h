#pragma once

#include "ops/kernel_registry.h"

namespace rocmforge {

/// Preconditions of every kernel of an operation. Each throws LogicError that names the operation, the argument and what is
/// wrong with it ("attention: block table of sequence 1 names block 7 of 4"). Costs a few integers per token, nothing per
/// element.
void check_arguments(const EmbeddingRows::Spec& spec, const EmbeddingRows::Args& args);
void check_arguments(const RmsNorm::Spec& spec, const RmsNorm::Args& args);
void check_arguments(const GatedActivation::Spec& spec, const GatedActivation::Args& args);
void check_arguments(const Matmul::Args& args);
void check_arguments(const RopeAppend::Spec& spec, const RopeAppend::Args& args);
void check_arguments(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args);

/// What every kernel asks of a spec; kernels add limits of their own.
[[nodiscard]] Support check_spec(const EmbeddingRows::Spec& spec);
[[nodiscard]] Support check_spec(const RmsNorm::Spec& spec);
[[nodiscard]] Support check_spec(const GatedActivation::Spec& spec);
[[nodiscard]] Support check_spec(const Matmul::Spec& spec);
[[nodiscard]] Support check_spec(const RopeAppend::Spec& spec);
[[nodiscard]] Support check_spec(const Attention::Spec& spec);

/// The softmax scale with its default filled in.
[[nodiscard]] float attention_scale(const Attention::Spec& spec);

}  // namespace rocmforge
