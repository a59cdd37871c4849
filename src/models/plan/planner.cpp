#include "models/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/config/eagle_file.h"

namespace rocmforge {

Planner::Planner(ModelPlan& plan, const KernelRegistry& registry, const DeviceInfo& device, int num_threads,
                 const ModelOptions& options)
    : plan_(&plan),
      registry_(&registry),
      device_(device),
      options_(options),
      share_(options.communicator != nullptr ? Share{options.communicator->rank(), options.communicator->ranks()} : Share{}),
      limits_{options.max_batch_tokens, options.max_sequences, options.context_length, num_threads} {
  if (options.placement.split()) {
    host_device_ = cpu_device_info(options.host_isa);
    plan.host.emplace(SidePlan{plan.weights.beside(), BufferPlan(options.max_batch_tokens, options.max_logit_rows)});
  }
}

void Planner::use(Side side) {
  side_ = side;
  plan_->report.use(side);
}

std::optional<Planner::Place> Planner::feature_behind(int index) const {
  if (options_.eagle == nullptr || other_ != nullptr) {
    return std::nullopt;
  }
  const std::vector<std::int32_t>& layers = options_.eagle->target_layers;
  const auto found = std::ranges::find(layers, index + 1);
  return found == layers.end() ? std::nullopt
                               : std::optional(Place{static_cast<std::int32_t>(found - layers.begin()),
                                                     static_cast<std::int32_t>(layers.size())});
}

EmbeddingTable* Planner::embedding(std::string_view name, std::int64_t vocab, std::int64_t hidden) {
  const GgufTensor& table = weights().tensor(name, {vocab, hidden});
  const std::string_view layer = name.substr(0, name.rfind('.'));
  weights().refuse_any_scale(layer);
  return with_context(weights().place(name), [&] {
    return weights().add(EmbeddingTable{resolve<EmbeddingRows>({table.tensor.dtype, vocab, hidden}), &table});
  });
}

PlannedAttention Planner::attention(Attention::Spec spec, const std::optional<KvPlace>& shared, bool spans) {
  if (spec.chunked && spec.window >= limits_.max_kv_len) {
    spec.chunked = false;  // all positions are in the first chunk, which kernels without chunks compute, too
    spec.window = 0;
  }
  const Attention::Spec decode_spec = single_row_spec(spec);
  if (shared && memory().side(*shared) != side_) {
    throw Error("layers that share keys and values must be placed on one device");
  }
  AttentionPair pair =
      choose_attention(*registry_, spec, device(), forced(options_.attention), shared ? &memory().plane(*shared) : nullptr);
  // Without causality a text is computed in one step, which needs all its positions.
  const std::int32_t window = spec.causal ? cache_window(spec.window, limits_.max_kv_len) : 0;
  const KvPlace place = shared ? *shared : memory().add_plane(window, pair.layout, side_);
  const AttentionBackend& prefill = *pair.prefill.kernel;
  const AttentionBackend& decode = *pair.decode.kernel;
  PlannedOperation prefills = describe<Attention>(spec, std::move(pair.prefill)).second;
  PlannedOperation decodes = describe<Attention>(decode_spec, std::move(pair.decode)).second;
  StepAttention attention{spec, decode_spec, prefill, decode};
  if (!spans) {
    attention.pass_over_spans();
  }
  const AttentionPair chosen{{&prefill, {}}, {&decode, {}}, pair.layout};
  prefills.uses = {KernelUse<Attention>{spec, &prefill, pair.layout}};
  decodes.uses = {KernelUse<Attention>{decode_spec, &decode, pair.layout}};
  if (&decode != &prefill) {
    plan_->report.add(std::move(prefills));
    plan_->report.add(std::move(decodes));
  } else {
    prefills.uses.push_back(decodes.uses[0]);
    plan_->report.add(std::move(prefills));
  }
  need_scratch(prefill.workspace_bytes(spec, limits_));
  need_scratch(decode.workspace_bytes(decode_spec, limits_));
  need_attention_state(std::max(prefill.state_bytes(spec, limits_), decode.state_bytes(decode_spec, limits_)));
  plan_further(attention, spec, chosen, spans);
  return {attention, place, pair.layout};
}

void Planner::plan_further(StepAttention& attention, const Attention::Spec& spec, const AttentionPair& pair, bool spans) {
  if (options_.spans && spans) {
    Attention::Spec of_spans = spec;
    of_spans.spans = true;
    attention.set_spans(plan_beside(pair, of_spans));
  }
  for (std::int32_t rows = 2; rows <= options_.most_rows; rows *= 2) {
    Attention::Spec few = spec;
    few.most_rows = rows;
    attention.set_few(rows, plan_beside(pair, few));
  }
}

const AttentionBackend& Planner::plan_beside(const AttentionPair& pair, const Attention::Spec& spec) {
  Choice<Attention> choice = choose_beside(pair, *registry_, spec, device());
  const AttentionBackend& kernel = *choice.kernel;
  PlannedOperation operation = describe<Attention>(spec, std::move(choice)).second;
  operation.uses = {KernelUse<Attention>{spec, &kernel, pair.layout}};
  operation.times = 0;  // in a decode step
  plan_->report.add(std::move(operation));
  need_scratch(kernel.workspace_bytes(spec, limits_));
  need_attention_state(kernel.state_bytes(spec, limits_));
  return kernel;
}

/// Each phase has one.
void Planner::need_attention_state(std::size_t size_bytes) {
  buffers().need_bytes(BufferName::prompt_attention_state, size_bytes);
  buffers().need_bytes(BufferName::single_attention_state, size_bytes);
}

Resolved<RopeAppend> Planner::rope_append(const RopeAppend::Spec& spec, const StepAttention& attention) {
  return resolve_part<RopeAppend>(spec, Attention::name, attention.takes(spec) ? limits_.max_sequences : 0);
}

Norm Planner::norm(const NormName& name, std::int64_t dim) {
  if (name.kind == NormKind::rms) {
    return {resolve<RmsNorm>({dim, name.eps}), norm_weight(name, dim)};
  }
  const Shape shape = name.groups > 1 || !name.rows.whole() ? Shape{name.groups, dim} : Shape{dim};
  const std::string bias = name.name + ".bias";
  const bool has_bias = name.needs_bias || weights().has_tensor(bias);
  return {resolve<LayerNorm>({dim, name.eps, has_bias, name.groups}),
          floats(name.name + std::string(name.suffix), shape, name.rows),
          has_bias ? floats(bias, shape, name.rows) : nullptr};
}

/// The weights of a norm times their factor.
const WeightVector* Planner::norm_weight(const NormName& name, std::int64_t dim) {
  if (name.name.empty()) {
    return weights().computed(std::vector<float>(static_cast<std::size_t>(dim), 1.0f));
  }
  const std::string tensor = name.name + std::string(name.suffix);
  if (name.factor == 1.0f) {
    return vector(tensor, dim);
  }
  plan_->report.add_weight_bytes(static_cast<std::size_t>(dim) * sizeof(float));
  return weights().scaled_vector(tensor, dim, name.factor);
}

const WeightVector* Planner::floats(std::string_view name, const Shape& shape, const Selection& rows) {
  plan_->report.add_weight_bytes(static_cast<std::size_t>(shape.elems()) * sizeof(float));
  return rows.whole() ? weights().vector(name, shape) : weights().selected_vector(name, shape, rows);
}

const WeightVector* Planner::joined_floats(std::span<const std::string> names, const Shape& each, const Selection& rows) {
  plan_->report.add_weight_bytes(names.size() * static_cast<std::size_t>(each.elems()) * sizeof(float));
  return weights().joined_vector(names, each, rows);
}

Range Planner::own(int index, std::int64_t count, std::string_view what) const {
  return with_context(place_of(index), [&] { return share_.equal(count, what); });
}

Range Planner::own_or_common(int index, std::int64_t count, std::string_view what) const {
  return with_context(place_of(index), [&] { return share_.repeated(count, what); });
}

Range Planner::own_features(std::int64_t width, const std::string& down) const {
  const WeightTable& weights = this->weights();
  return with_context(weights.place(down + ".weight"),
                      [&] { return share_.units(width, weights.block_columns(down + ".weight"), "columns"); });
}

std::string Planner::place_of(int index) const { return fmt::format("{}: layer {}", weights().file_name(), index); }

RankSum Planner::rank_sum(std::int64_t width) {
  check(!share_.whole(), "a rank alone has no sum");
  buffers().need(BufferName::partial, width);
  return {resolve_for_width<AllReduce>({share_.ranks}, (share_.ranks + 1) * width), width};
}

}  // namespace rocmforge
