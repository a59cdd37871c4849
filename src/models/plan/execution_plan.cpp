#include "models/plan/execution_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/log.h"
#include "models/config/model_tensors.h"
#include "models/plan/attention_pair.h"
#include "models/plan/weight_choice.h"
#include "weights/gguf_value.h"

namespace rocmforge {
namespace {

constexpr std::string_view scale_suffix = ".scale";

std::size_t stored_bytes(const MatmulWeight& weight) {
  const std::size_t packed = weight.kernel->packed_bytes(weight.spec);
  return packed > 0 ? packed : weight.bytes();
}

}  // namespace

ExecutionPlan::ExecutionPlan(const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device, int num_threads,
                             const ModelOptions& options)
    : file_(&file),
      registry_(&registry),
      device_(device),
      options_(options),
      limits_{options.max_batch_tokens, options.max_sequences, options.context_length, num_threads} {
  used_ = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};  // part of the configuration
}

const GgufTensor& ExecutionPlan::tensor(std::string_view name, const Shape& shape) {
  const GgufTensor& found = expect_tensor(*file_, name, shape);
  if (const DTypeInfo& format = info(found.tensor.dtype); !format.computes) {
    throw Error(fmt::format("{}: tensor '{}' is {}, a format that is known but can't be computed yet",
                            file_->path().string(), name, format.name));
  }
  used_.emplace(name);
  return found;
}

const WeightVector* ExecutionPlan::floats(std::string_view name, const Shape& shape) {
  bytes_per_token_ += static_cast<std::size_t>(shape.elems()) * sizeof(float);
  return find_vector(name, shape);
}

const GgufTensor& ExecutionPlan::vector_tensor(std::string_view name, const Shape& shape) {
  const GgufTensor& found = tensor(name, shape);
  if (const DType type = found.tensor.dtype; type != DType::f32 && type != DType::f16 && type != DType::bf16) {
    throw Error(fmt::format("{}: tensor {} is {}, a vector must be F32, F16 or BF16", file_->path().string(), quote(name),
                            rocmforge::name(found.tensor.dtype)));
  }
  return found;
}

/// The weights of a norm times their factor.
const WeightVector* ExecutionPlan::norm_weight(const NormName& name, std::int64_t dim) {
  const std::string tensor = name.name + std::string(name.suffix);
  if (name.factor == 1.0f) {
    return vector(tensor, dim);
  }
  bytes_per_token_ += static_cast<std::size_t>(dim) * sizeof(float);
  Device host;
  WeightStore store(*file_, host);
  const float* values = store.floats(vector_tensor(tensor, {dim}));
  std::vector<float>& own = computed_.emplace_back(values, values + dim);
  std::ranges::for_each(own, [&](float& value) { value *= name.factor; });
  return constants(own);
}

const WeightVector* ExecutionPlan::find_vector(std::string_view name, const Shape& shape) {
  const GgufTensor& found = vector_tensor(name, shape);
  const auto known = std::ranges::find(vectors_, &found, &WeightVector::tensor);
  return known != vectors_.end() ? &*known : &vectors_.emplace_back(WeightVector{&found, {}, nullptr});
}

std::int64_t ExecutionPlan::state(std::size_t size_bytes) {
  constexpr std::size_t alignment = 256;  // the alignment that GPU kernels may expect of every buffer
  const std::size_t offset = state_bytes_;
  state_bytes_ += (size_bytes + alignment - 1) / alignment * alignment;
  return static_cast<std::int64_t>(offset);
}

const WeightVector* ExecutionPlan::constants(std::span<const float> values) {
  const auto known = std::find_if(vectors_.begin(), vectors_.end(), [&](const WeightVector& other) {
    return other.values.data() == values.data() && other.values.size() == values.size();
  });
  return known != vectors_.end() ? &*known : &vectors_.emplace_back(WeightVector{nullptr, values, nullptr});
}

WeightTable* ExecutionPlan::embedding(std::string_view name, std::int64_t vocab, std::int64_t hidden) {
  const GgufTensor& table = tensor(name, {vocab, hidden});
  const std::string_view layer = name.substr(0, name.rfind('.'));
  if (has_tensor(std::string(layer) + std::string(scale_suffix))) {
    refuse_scale(layer);
  }
  return with_context(file_->path().string() + ": tensor " + quote(name), [&] {
    return &tables_.emplace_back(WeightTable{resolve<EmbeddingRows>({table.tensor.dtype, vocab, hidden}), &table});
  });
}

StepAttention ExecutionPlan::attention(const Attention::Spec& spec, const std::optional<KvPlace>& shared) {
  Attention::Spec decode_spec = spec;
  decode_spec.decode = true;
  AttentionPair pair = choose_attention(*registry_, spec, device_, options_.attention);
  kv_layout_ = pair.layout;
  kv_place_ = shared ? *shared : add_plane(spec.window, pair.layout);
  check(
      kv_groups_[static_cast<std::size_t>(kv_place_.group)].planes[static_cast<std::size_t>(kv_place_.plane)] == pair.layout,
      "layers that share a plane want the same layout");
  const AttentionBackend& prefill = *pair.prefill.kernel;
  const AttentionBackend& decode = *pair.decode.kernel;
  PlannedOperation prefills = describe<Attention>(spec, std::move(pair.prefill)).second;
  PlannedOperation decodes = describe<Attention>(decode_spec, std::move(pair.decode)).second;
  prefills.uses = {KernelUse<Attention>{spec, &prefill, pair.layout}};
  decodes.uses = {KernelUse<Attention>{decode_spec, &decode, pair.layout}};
  if (&decode != &prefill) {
    line(std::move(prefills));
    line(std::move(decodes));
  } else {
    prefills.uses.push_back(decodes.uses[0]);
    line(std::move(prefills));
  }
  needs_scratch(prefill.workspace_bytes(spec, limits_));
  needs_scratch(decode.workspace_bytes(decode_spec, limits_));
  attention_state_bytes_ =
      std::max({attention_state_bytes_, prefill.state_bytes(spec, limits_), decode.state_bytes(decode_spec, limits_)});
  return {spec, prefill, decode};
}

Resolved<RopeAppend> ExecutionPlan::rope_append(const RopeAppend::Spec& spec, const StepAttention& attention) {
  return resolve_part<RopeAppend>(spec, Attention::name, attention.takes(spec) ? limits_.max_sequences : 0);
}

KvPlace ExecutionPlan::add_plane(std::int32_t window, const KvLayout& layout) {
  if (window >= limits_.max_kv_len) {
    window = 0;
  }
  auto group = std::ranges::find(kv_groups_, window, &KvGroup::window);
  if (group == kv_groups_.end()) {
    kv_groups_.push_back({.window = window, .planes = {}});
    group = kv_groups_.end() - 1;
  }
  group->planes.push_back(layout);
  return {static_cast<std::int32_t>(group - kv_groups_.begin()), static_cast<std::int32_t>(group->planes.size()) - 1};
}

KvGroups ExecutionPlan::kv_groups() const {
  KvGroups groups = kv_groups_;
  set_block_tokens(groups, block_tokens_of(groups));
  return groups;
}

FusedLinear ExecutionPlan::fused_linear(std::string_view operation, const std::optional<NormName>& norm,
                                        const std::vector<LinearName>& names, std::int64_t k,
                                        const std::optional<GatedActivation::Spec>& gate) {
  auto [linear, planned] = choose_linear(operation, names, k);
  const std::string_view kind = operation_kind(operation);
  FusedLinear fused;
  fused.fusions = linear.fusions();
  if (norm && norm->kind == NormKind::layer) {
    fused.fusions.norm_tokens = 0;
    fused.norm = this->norm(*norm, k);
  } else if (norm) {
    fused.norm = Norm{resolve_part<RmsNorm>({k, norm->eps}, kind, fused.fusions.norm_tokens), norm_weight(*norm, k)};
  } else {
    fused.fusions.norm_tokens = 0;
  }
  if (gate && gate->activation == Activation::gelu) {
    fused.fusions.gate_tokens = 0;  // products fuse only silu and gelu_tanh
  }
  if (gate && fused.fusions.gate_tokens > 0) {
    planned.activation_bytes -= static_cast<std::size_t>(gate->width) * sizeof(float);
  }
  line(std::move(planned));
  if (gate) {
    check(linear.width() == (gate->gated ? 2 : 1) * gate->width, "the layers are as wide as what is activated");
    fused.gate = resolve_part<GatedActivation>(*gate, kind, fused.fusions.gate_tokens);
  }
  fused.linear = std::move(linear);
  return fused;
}

Norm ExecutionPlan::norm(const NormName& name, std::int64_t dim) {
  if (name.kind == NormKind::rms) {
    return {resolve<RmsNorm>({dim, name.eps}), norm_weight(name, dim)};
  }
  const Shape shape = name.groups > 1 ? Shape{name.groups, dim} : Shape{dim};
  const std::string bias = name.name + ".bias";
  const bool has_bias = name.needs_bias || has_tensor(bias);
  return {resolve<LayerNorm>({dim, name.eps, has_bias, name.groups}), floats(name.name + std::string(name.suffix), shape),
          has_bias ? floats(bias, shape) : nullptr};
}

bool ExecutionPlan::has_tensor(std::string_view name, const Shape& shape) const {
  const GgufTensor* found = file_->find_tensor(name);
  return found != nullptr && has_shape(*found, shape);
}

Linear ExecutionPlan::linear(std::string_view operation, const std::vector<LinearName>& names, std::int64_t k) {
  auto [linear, planned] = choose_linear(operation, names, k);
  line(std::move(planned));
  return linear;
}

Router ExecutionPlan::router(const RouterNames& names, const RouteTokens::Spec& choice, std::int64_t hidden) {
  std::vector<LinearName> layers{{names.weight, choice.experts, names.needs_bias}};
  if (choice.shared_gates) {
    layers.push_back({names.shared_gates, choice.shared});
  }
  auto [linear, planned] = choose_linear(names.weight, layers, hidden);
  const std::string kind = linear.kind();
  Router router;
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
    needs_scratch(kernel->workspace_bytes(spec, kernel->most_tokens()));
    route_state_bytes_ = std::max(route_state_bytes_, kernel->state_bytes(spec));
    planned.kernel = fmt::format("{} {} + {}", kernel->name(), RouteRows::name, planned.kernel);
    planned.uses.emplace_back(KernelUse<RouteRows>{spec, kernel});
  }
  line(std::move(planned));
  router.choice = resolve_part<RouteTokens>(choice, kind, in_one);
  return router;
}

std::optional<Router::Rows> ExecutionPlan::router_rows(const Router& router, const RouteTokens::Spec& choice) {
  const std::vector<Linear::Part> parts = router.linear.parts();
  const bool plain = std::ranges::all_of(parts, [](const Linear::Part& part) {
    return part.weight->spec.weight == DType::f32 && part.weight->kernel->packed_bytes(part.weight->spec) == 0;
  });
  if (!router.norm || !plain || (choice.shared_gates && parts[1].bias != nullptr)) {
    return std::nullopt;  // needs a norm, and weights in F32 that are not repacked
  }
  const RmsNorm::Spec& norm = std::get<Resolved<RmsNorm>>(router.norm->operation).spec;
  const RouteRows::Spec spec{.route = choice, .hidden = norm.dim, .eps = norm.eps};
  const Candidates<RouteRows> found = registry_->candidates<RouteRows>(spec, device_);
  if (found.able.empty() || found.able[0]->priority() == KernelPriority::reference) {
    return std::nullopt;
  }
  return Router::Rows{{spec, found.able[0]}, parts[0], choice.shared_gates ? parts[1].weight : nullptr};
}

std::pair<Linear, PlannedOperation> ExecutionPlan::choose_linear(std::string_view operation,
                                                                 const std::vector<LinearName>& names, std::int64_t k) {
  std::vector<Linear::Part> parts;
  std::vector<Refusal> refusals;
  std::vector<std::string> specs;
  std::vector<std::string> kernels;
  std::vector<KernelRegistry::AnyUse> uses;
  std::size_t weight_bytes = 0;
  std::size_t activation_bytes = static_cast<std::size_t>(k) * sizeof(float);
  for (const LinearName& layer : names) {
    const MatmulWeight* weight = matmul_weight(layer, k, refusals);
    const std::string bias = layer.name + ".bias";
    parts.push_back({weight, layer.needs_bias || has_tensor(bias) ? vector(bias, layer.n) : nullptr});
    activation_bytes += static_cast<std::size_t>(layer.n) * sizeof(float);
    weight_bytes += stored_bytes(*weight);
    specs.push_back(to_string(weight->spec));
    uses.emplace_back(KernelUse<Matmul>{weight->spec, weight->kernel});
    if (const std::string kernel(weight->kernel->name()); kernels.empty() || kernels.back() != kernel) {
      kernels.push_back(kernel);
    }
  }
  bytes_per_token_ += weight_bytes;
  return {Linear(std::string(operation_kind(operation)), parts),
          {.operation = std::string(operation),
           .spec = fmt::format("{}", fmt::join(specs, " + ")),
           .kernel = fmt::format("{}", fmt::join(kernels, " + ")),
           .refusals = std::move(refusals),
           .weight_bytes = weight_bytes,
           .activation_bytes = activation_bytes,
           .uses = std::move(uses)}};
}

/// Refuses a file with a scale for this layer: without the scale the results would be wrong.
void ExecutionPlan::refuse_scale(std::string_view layer) const {
  throw Error(fmt::format("{}: tensor {} scales {}, which only matrix products with NVFP4 weights do",
                          file_->path().string(), quote(std::string(layer) + std::string(scale_suffix)),
                          quote(std::string(layer) + ".weight")));
}

/// The factor of an NVFP4 weight's whole product: tensor LAYER.scale.
float ExecutionPlan::weight_scale(std::string_view layer, DType type) {
  const std::string name = std::string(layer) + std::string(scale_suffix);
  if (type != DType::nvfp4 || !has_tensor(name)) {
    return 1.0f;
  }
  return number(name);
}

float ExecutionPlan::number(std::string_view name) {
  const GgufTensor& found = tensor(name, {1});
  check_scales(found);
  float value = 0.0f;
  std::memcpy(&value, found.tensor.data, sizeof value);
  return value;
}

void ExecutionPlan::check_scales(const GgufTensor& scales) const {
  if (scales.tensor.dtype != DType::f32) {
    throw Error(fmt::format("{}: tensor {} is {}, the scale of a weight must be F32", file_->path().string(),
                            quote(scales.name), rocmforge::name(scales.tensor.dtype)));
  }
  for (std::int64_t i = 0; i < scales.tensor.shape.elems(); ++i) {
    float scale = 0.0f;
    std::memcpy(&scale, static_cast<const std::byte*>(scales.tensor.data) + i * std::int64_t{sizeof scale}, sizeof scale);
    if (!std::isfinite(scale)) {
      throw Error(fmt::format("{}: tensor {} is {}, the scale of a weight must be a finite number", file_->path().string(),
                              quote(scales.name), scale));
    }
  }
}

const MatmulWeight* ExecutionPlan::matmul_weight(const LinearName& layer, std::int64_t k, std::vector<Refusal>& refusals) {
  const std::string name = layer.name + ".weight";
  const std::int64_t columns = layer.columns.of > 0 ? layer.columns.of : k;
  const GgufTensor& found = tensor(name, {layer.n, columns});
  if (const std::int32_t together = info(found.tensor.dtype).block_elems;
      layer.columns.of > 0 && (k % together != 0 || layer.columns.first % together != 0)) {
    throw Error(fmt::format("{}: tensor {} is {}, whose blocks of {} columns can't be parted behind column {}",
                            file_->path().string(), quote(name), rocmforge::name(found.tensor.dtype), together, k));
  }
  const Matmul::Spec spec{found.tensor.dtype, layer.n, k};
  Choice<Matmul> choice = with_context(file_->path().string() + ": tensor " + quote(name), [&] {
    return choose_for_weights<Matmul>(*registry_, spec, device_, options_.matmul, options_.small_weights);
  });
  for (Refusal& refusal : choice.refusals) {
    if (std::none_of(refusals.begin(), refusals.end(), [&](const Refusal& known) {
          return known.kernel == refusal.kernel && known.reason == refusal.reason;
        })) {
      refusals.push_back(std::move(refusal));
    }
  }
  needs_scratch(choice.kernel->workspace_bytes(options_.max_batch_tokens, k));
  return &matrices_.emplace_back(MatmulWeight{&found, spec, choice.kernel, nullptr, weight_scale(layer.name, spec.weight),
                                              layer.groups, layer.columns});
}

std::size_t ExecutionPlan::packed_bytes() const {
  if (store_) {
    return store_->owned_bytes();
  }
  const bool gpu = device_.is_gpu();
  std::size_t total = 0;
  std::set<const GgufTensor*> raw;  // rows in the file's format are uploaded once for all their users
  const auto add_raw = [&](const GgufTensor* tensor) {
    if (gpu && raw.insert(tensor).second) {
      total += WeightStore::copy_bytes(tensor->tensor.bytes());
    }
  };
  for (const MatmulWeight& weight : matrices_) {
    if (const std::size_t packed = weight.kernel->packed_bytes(weight.spec); packed > 0) {
      total += WeightStore::copy_bytes(packed);
    } else if (weight.rearranged()) {
      total += WeightStore::copy_bytes(weight.bytes());
    } else {
      add_raw(weight.tensor);
    }
  }
  for (const ExpertMatrix& experts : expert_matrices_) {
    if (experts.in_place()) {
      add_raw(experts.tensors[0]);
    } else {
      total += WeightStore::copy_bytes(experts.bytes());
    }
  }
  for (const HeadMatrix& heads : head_matrices_) {
    if (heads.in_place()) {
      add_raw(heads.tensor);
    } else {
      total += WeightStore::copy_bytes(heads.bytes());
    }
  }
  for (const WeightTable& table : tables_) {
    add_raw(table.tensor);
  }
  for (const WeightVector& vector : vectors_) {
    const bool converted = vector.tensor != nullptr && vector.tensor->tensor.dtype != DType::f32;
    total += gpu || converted ? WeightStore::copy_bytes(vector.count() * sizeof(float)) : 0;
  }
  return total;
}

void ExecutionPlan::load_weights(Device& device, ThreadPool& pool) {
  refuse_unused_scales();
  const std::size_t total = packed_bytes();
  store_.emplace(*file_, device, &pool);
  store_->reserve(total);
  for (WeightVector& vector : vectors_) {
    vector.data = vector.tensor != nullptr ? store_->floats(*vector.tensor) : store_->floats(vector.values);
  }
  for (WeightTable& table : tables_) {
    table.data = store_->view(*table.tensor);
  }
  load_matrices(*store_, pool, total);
  check(store_->owned_bytes() == total, "the plan counts the weights that are copied");
  store_->finish();
  warn_of_unused();
}

namespace {

/// The columns of ColumnRange.
void take_columns(const MatmulWeight& weight, std::byte* out) {
  const std::size_t row = row_bytes(weight.spec.weight, weight.spec.k);
  const std::size_t whole_row = row_bytes(weight.spec.weight, weight.columns.of);
  const std::byte* from =
      static_cast<const std::byte*>(weight.tensor->tensor.data) + row_bytes(weight.spec.weight, weight.columns.first);
  for (std::int64_t n = 0; n < weight.spec.n; ++n, from += whole_row, out += row) {
    std::memcpy(out, from, row);
  }
}

/// The rows of a matrix of the file in the order of RowGroups, or the columns of ColumnRange.
void rearrange(const MatmulWeight& weight, std::byte* out) {
  if (weight.columns.of > 0) {
    take_columns(weight, out);
    return;
  }
  const std::size_t row = row_bytes(weight.spec.weight, weight.spec.k);
  const auto* rows = static_cast<const std::byte*>(weight.tensor->tensor.data);
  const std::int64_t each = weight.spec.n / weight.groups.groups;
  std::int64_t before = 0;
  for (const std::int64_t part : weight.groups.parts) {
    const std::size_t size = static_cast<std::size_t>(part) * row;
    for (std::int64_t group = 0; group < weight.groups.groups; ++group) {
      std::memcpy(out, rows + static_cast<std::size_t>(group * each + before) * row, size);
      out += size;
    }
    before += part;
  }
  check(before == each, "the parts are the rows of a group");
}

const void* load_matrix(const MatmulWeight& weight, WeightStore& store, ExecutionContext& context) {
  const std::size_t packed_bytes = weight.kernel->packed_bytes(weight.spec);
  if (packed_bytes > 0) {
    return store.repack(*weight.tensor, packed_bytes, [&](const void* rows, void* packed) {
      std::vector<std::byte> rearranged;
      if (weight.rearranged()) {
        rearranged.resize(weight.bytes());
        rearrange(weight, rearranged.data());
        rows = rearranged.data();
      }
      weight.kernel->pack(weight.spec, rows, packed, context);
    });
  }
  if (weight.rearranged()) {
    const GgufTensor* const tensors[] = {weight.tensor};
    return store.assemble(tensors, weight.bytes(), [&](std::byte* out) { rearrange(weight, out); });
  }
  return store.view(*weight.tensor);
}

}  // namespace

void ExecutionPlan::load_matrices(WeightStore& store, ThreadPool& pool, std::size_t total_bytes) {
  ExecutionContext context{&pool};
  std::size_t shown = 0;
  const auto show = [&] {
    if (options_.progress && store.owned_bytes() > shown) {
      shown = store.owned_bytes();
      options_.progress(static_cast<double>(shown) / static_cast<double>(total_bytes));
    }
  };
  for (MatmulWeight& weight : matrices_) {
    weight.data = load_matrix(weight, store, context);
    show();
  }
  for (ExpertMatrix& experts : expert_matrices_) {
    experts.data = load_experts(experts, store, context);
    show();
  }
  for (HeadMatrix& heads : head_matrices_) {
    heads.data = load_heads(heads, store, context);
    show();
  }
}

void ExecutionPlan::refuse_unused_scales() const {
  for (const GgufTensor& tensor : file_->tensors()) {
    if (tensor.name.ends_with(scale_suffix) && !used_.contains(tensor.name)) {
      const std::string layer = tensor.name.substr(0, tensor.name.size() - scale_suffix.size());
      if (used_.contains(layer + ".weight")) {
        refuse_scale(layer);
      }
    }
  }
}

void ExecutionPlan::warn_of_unused() const {
  std::vector<std::string> unused;
  for (const GgufTensor& tensor : file_->tensors()) {
    if (!used_.contains(tensor.name)) {
      unused.push_back(quote(tensor.name));
    }
  }
  if (!unused.empty()) {
    log_warning("{}: tensors without effect: {}", file_->path().string(), fmt::join(unused, ", "));
  }
}

void ExecutionPlan::line(PlannedOperation operation) {
  if (decode_bytes_) {
    operation.times = 0;
  }
  const auto known = std::find_if(operations_.begin(), operations_.end(), [&](const PlannedOperation& other) {
    return other.operation == operation.operation && other.spec == operation.spec && other.part_of == operation.part_of &&
           other.part_tokens == operation.part_tokens;
  });
  if (known != operations_.end()) {
    known->times += operation.times;
  } else {
    operations_.push_back(std::move(operation));
  }
}

void ExecutionPlan::needs_scratch(std::size_t size_bytes) { scratch_bytes_ = std::max(scratch_bytes_, size_bytes); }

}  // namespace rocmforge
