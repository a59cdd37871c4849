#include <fmt/format.h>

#include <algorithm>

#include "models/plan/planner.h"
#include "models/plan/weight_choice.h"
#include "weights/gguf_value.h"

namespace rocmforge {

ExpertRouter Planner::router(const RouterNames& names, const RouteTokens::Spec& choice, std::int64_t hidden) {
  std::vector<LinearName> layers{{names.weight, choice.experts, names.needs_bias}};
  if (choice.shared_gates) {
    layers.push_back({names.shared_gates, choice.shared});
  }
  auto [linear, planned] = choose_linear(names.weight, layers, hidden);
  const std::string kind = linear.kind();
  ExpertRouter router;
  router.linear = std::move(linear);
  if (names.norm && names.norm->kind == NormKind::rms) {
    router.norm = Norm{Resolved<RmsNorm>{{hidden, names.norm->eps}}, norm_weight(*names.norm, hidden)};
  }
  if (!names.choice_bias.empty()) {
    router.choice_bias = vector(names.choice_bias, choice.experts);
  }
  router.rows = router_rows(router, choice);
  const std::int64_t in_one = router.tokens_in_one();
  if (router.norm) {
    router.norm->operation = resolve_part<RmsNorm>({hidden, names.norm->eps}, kind, in_one);
  } else if (names.norm) {
    router.norm = norm(*names.norm, hidden);
  }
  if (router.rows) {
    const auto& [spec, kernel] = router.rows->operation;
    need_scratch(kernel->workspace_bytes(spec, kernel->most_tokens()));
    buffers().need_bytes(BufferName::route_state, kernel->state_bytes(spec));
    planned.kernel = fmt::format("{} {} + {}", kernel->name(), RouteRows::name, planned.kernel);
    planned.uses.emplace_back(KernelUse<RouteRows>{spec, kernel});
  }
  plan_->report.add(std::move(planned));
  router.choice = resolve_part<RouteTokens>(choice, kind, in_one);
  return router;
}

std::optional<ExpertRouter::Rows> Planner::router_rows(const ExpertRouter& router, const RouteTokens::Spec& choice) {
  const std::vector<Linear::Part> parts = router.linear.parts();
  const bool plain = std::ranges::all_of(parts, [](const Linear::Part& part) {
    return part.weight->spec.weight == DType::f32 && part.weight->kernel->packed_bytes(part.weight->spec) == 0;
  });
  if (!router.norm || !plain || (choice.shared_gates && parts[1].bias != nullptr)) {
    return std::nullopt;  // needs a norm, and weights in F32 that are not repacked
  }
  const RmsNorm::Spec& norm = std::get<Resolved<RmsNorm>>(router.norm->operation).spec;
  const RouteRows::Spec spec{.route = choice, .hidden = norm.dim, .eps = norm.eps};
  const Candidates<RouteRows> found = registry_->candidates<RouteRows>(spec, device());
  if (found.able.empty() || found.able[0]->priority() == KernelPriority::reference) {
    return std::nullopt;
  }
  return ExpertRouter::Rows{{spec, found.able[0]}, parts[0], choice.shared_gates ? parts[1].weight : nullptr};
}

std::vector<const ExpertMatrix*> Planner::experts(std::string_view operation, const std::vector<ExpertTensorName>& names,
                                                  const ExpertMatmul::Spec& wanted,
                                                  const std::optional<GatedActivation::Spec>& activation) {
  const bool down = names.size() == 1 && !wanted.alone;
  std::vector<const ExpertMatrix*> found;
  PlannedOperation planned;
  planned.operation = operation;
  for (const ExpertTensorName& name : names) {
    ExpertMatrix matrix = find_experts(name, wanted);
    Choice<ExpertMatmul> choice = with_context(weights().place(matrix.tensors[0]->name), [&] {
      return choose_for_weights<ExpertMatmul>(*registry_, matrix.spec, device(), {}, options_.small_weights);
    });
    matrix.kernel = choice.kernel;
    matrix.down = down;
    matrix.activation = activation;
    if (found.empty()) {
      planned.kernel = choice.kernel->name();
      planned.refusals = std::move(choice.refusals);
    } else if (choice.kernel != found[0]->kernel ||
               (matrix.spec.weight != found[0]->spec.weight && !choice.kernel->mixes_formats())) {
      throw Error(fmt::format("{} is {}, which does not run together with the format of {} here",
                              weights().place(matrix.tensors[0]->name), rocmforge::name(matrix.spec.weight),
                              quote(found[0]->tensors[0]->name)));
    }
    need_scratch(matrix.kernel->workspace_bytes(matrix.spec, options_.max_batch_tokens));
    buffers().need_bytes(BufferName::slot_order, matrix.kernel->order_bytes(matrix.spec, options_.max_batch_tokens));
    planned.spec += (found.empty() ? "" : " + ") + to_string(matrix.spec);
    planned.uses.emplace_back(KernelUse<ExpertMatmul>{matrix.spec, matrix.kernel});
    planned.weight_bytes += matrix.slot_bytes() * static_cast<std::size_t>(wanted.used);
    found.push_back(weights().add(std::move(matrix)));
  }
  // Each token reads its slots' inputs once and writes their outputs.
  const std::int64_t per_slot = down ? wanted.k : wanted.n;
  const std::int64_t per_token = down ? 2 * wanted.n : wanted.k;
  planned.activation_bytes = static_cast<std::size_t>(per_slot * wanted.used + per_token) * sizeof(float);
  plan_->report.add_weight_bytes(planned.weight_bytes);
  plan_->report.add(std::move(planned));
  return found;
}

ExpertMatrix Planner::find_experts(const ExpertTensorName& name, const ExpertMatmul::Spec& all) {
  ExpertMatmul::Spec wanted = all;  // of the experts that are chosen
  wanted.experts -= name.shared.empty() ? 0 : 1;
  const std::int64_t rows = name.rows.whole() ? wanted.n : name.rows.of;
  const std::int64_t columns = name.columns.whole() ? wanted.k : name.columns.of;
  ExpertMatrix matrix{.tensors = {}, .tensor_rows = rows, .of_rows = name.rows, .of_columns = name.columns, .spec = wanted};
  const std::string joined = name.joined + ".weight";
  const bool is_joined = !name.joined.empty() && weights().has_tensor(joined);
  if (is_joined) {
    matrix.tensors = {&weights().tensor(joined, {wanted.experts, 2 * rows, columns})};
    matrix.tensor_rows = 2 * rows;
    matrix.first_row = name.second_half ? rows : 0;
  } else if (name.single.empty() || !weights().has_tensor(name.single + ".0.weight")) {
    matrix.tensors = {&weights().tensor(name.stacked + ".weight", {wanted.experts, rows, columns})};
  } else {
    for (std::int64_t e = 0; e < wanted.experts; ++e) {
      const GgufTensor& own = weights().tensor(fmt::format("{}.{}.weight", name.single, e), {rows, columns});
      if (e > 0 && own.tensor.dtype != matrix.tensors[0]->tensor.dtype) {
        throw Error(fmt::format("{} is {}, that of expert 0 is {}", weights().place(own.name),
                                rocmforge::name(own.tensor.dtype), rocmforge::name(matrix.tensors[0]->tensor.dtype)));
      }
      matrix.tensors.push_back(&own);
    }
  }
  weights().check_blocks(*matrix.tensors[0], name.columns);
  matrix.spec.weight = matrix.tensors[0]->tensor.dtype;
  find_expert_vectors(name, is_joined, matrix);
  if (!name.shared.empty()) {
    matrix.shared = &weights().tensor(name.shared + ".weight", {rows, columns});
    matrix.spec.experts = all.experts;
  }
  return matrix;
}

/// The biases and scales of the weights' tensor. Those that belong to another form of the tensor are refused.
void Planner::find_expert_vectors(const ExpertTensorName& name, bool joined, ExpertMatrix& matrix) {
  const bool one_by_one = matrix.tensors.size() > 1;
  for (const char* suffix : {".bias", ".scale"}) {
    if (joined || one_by_one) {
      weights().refuse_tensor(name.stacked + suffix);
    }
    if (!joined) {
      weights().refuse_tensor(name.joined + suffix);
    }
    for (std::int64_t e = 0; one_by_one && e < matrix.spec.experts; ++e) {
      weights().refuse_tensor(fmt::format("{}.{}{}", name.single, e, suffix));
    }
  }
  const std::string& tensor = joined ? name.joined : name.stacked;
  if (name.summed && share().rank > 0) {  // the first rank adds it
    weights().pass_over(tensor + ".bias");
  } else if (name.needs_bias || (!one_by_one && weights().has_tensor(tensor + ".bias"))) {
    matrix.bias = weights().vector(tensor + ".bias", {matrix.spec.experts, matrix.tensor_rows});
    plan_->report.add_weight_bytes(static_cast<std::size_t>(matrix.spec.used * matrix.spec.n) * sizeof(float));
  }
  if (one_by_one || !weights().has_tensor(tensor + ".scale")) {
    return;
  }
  if (matrix.spec.weight != DType::nvfp4 && !name.any_scale) {
    weights().refuse_scale(tensor);
  }
  matrix.scale = weights().vector(tensor + ".scale", {matrix.spec.experts});
  plan_->report.add_weight_bytes(static_cast<std::size_t>(matrix.spec.used) * sizeof(float));
  weights().check_scales(*matrix.scale->tensor);
}

}  // namespace rocmforge
