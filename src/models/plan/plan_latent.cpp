#include <algorithm>

#include "models/plan/planner.h"

namespace rocmforge {

const HeadMatrix* Planner::heads(const HeadTensorName& name, HeadMatmul::Spec spec) {
  HeadMatrix matrix;
  matrix.tensor_rows = spec.n;
  matrix.cut = name.all_heads != spec.heads;
  const std::string own = name.own + ".weight";
  if (weights().has_tensor(own) || !weights().has_tensor(name.joined + ".weight")) {
    matrix.tensor = &weights().tensor(own, {name.all_heads, spec.n, spec.k});
  } else {
    matrix.tensor =
        &weights().tensor(name.joined + ".weight", {name.all_heads * name.all_rows, name.transposed ? spec.n : spec.k});
    matrix.first_row = name.first_row;
    matrix.tensor_rows = name.all_rows;
    matrix.transposed = name.transposed;
  }
  matrix.first_row += name.first_head * matrix.tensor_rows;
  weights().refuse_tensor(name.own + ".scale");
  weights().refuse_tensor(name.joined + ".scale");
  spec.weight = matrix.transposed ? DType::f32 : matrix.tensor->tensor.dtype;
  Choice<HeadMatmul> choice =
      with_context(weights().place(matrix.tensor->name), [&] { return registry_->choose<HeadMatmul>(spec, device()); });
  matrix.spec = spec;
  matrix.kernel = choice.kernel;
  const std::size_t weight_bytes = static_cast<std::size_t>(spec.heads * spec.n) * row_bytes(spec.weight, spec.k);
  plan_->report.add_weight_bytes(weight_bytes);
  need_scratch(choice.kernel->workspace_bytes(spec, options_.max_batch_tokens));
  plan_->report.add({.operation = name.own,
                     .spec = to_string(spec),
                     .kernel = std::string(choice.kernel->name()),
                     .refusals = std::move(choice.refusals),
                     .weight_bytes = weight_bytes,
                     .activation_bytes = decode_bytes(spec),
                     .uses = {KernelUse<HeadMatmul>{spec, choice.kernel}}});
  return weights().add(std::move(matrix));
}

std::optional<LatentPrefill> Planner::latent_prefill(const HeadMatrix& keys, const HeadMatrix& values,
                                                     const PlannedAttention& absorbed) {
  if (!device().is_gpu() || !options_.attention.empty() || keys.kernel->packed_bytes(keys.spec) > 0 ||
      values.kernel->packed_bytes(values.spec) > 0) {
    return std::nullopt;  // a forced kernel is also used for prompts; repacked matrices can't be read by rows
  }
  const DType type = absorbed.layout.dtype == DType::bf16 ? DType::bf16 : DType::f16;
  const LatentExpand::Spec spec{.plain_dim = static_cast<std::int32_t>(keys.spec.k),
                                .value_dim = static_cast<std::int32_t>(values.spec.n),
                                .key_weight = keys.spec.weight,
                                .value_weight = values.spec.weight,
                                .out = type,
                                .layout = absorbed.layout};
  if (Candidates<LatentExpand> found = registry_->candidates<LatentExpand>(spec, device()); found.able.empty()) {
    plan_->report.add({.operation = std::string(LatentExpand::name),
                       .spec = to_string(spec),
                       .kernel = "none, prompts are computed as single tokens are",
                       .refusals = std::move(found.refusals),
                       .times = 0});
    return std::nullopt;
  }
  LatentPrefill prefill;
  prefill.keys = &keys;
  prefill.values = &values;
  prefill.expand = resolve_for_prompts<LatentExpand>(spec);
  const auto heads = static_cast<std::int32_t>(keys.spec.heads);
  prefill.attention = resolve_for_prompts<Attention>({.q_heads = heads,
                                                      .kv_heads = heads,
                                                      .head_dim = spec.head_dim(),
                                                      .kv_dtype = type,
                                                      .scale = absorbed.attention.scale()});
  prefill.copy_pass = resolve_for_prompts<CopyHeads>({spec.head_dim(), spec.value_dim});
  prefill.copy_kept = resolve_for_prompts<CopyHeads>({spec.value_dim, spec.value_dim});

  need_scratch(prefill.lay_out(limits_, options_.expanded_bytes, absorbed.attention.workspace_bytes(limits_)));
  need_attention_state(prefill.attention.kernel->state_bytes(prefill.attention.spec, limits_));
  return prefill;
}

}  // namespace rocmforge
