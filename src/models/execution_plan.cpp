#include "models/execution_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/log.h"
#include "models/model_tensors.h"
#include "weights/gguf_value.h"

namespace rocmforge {
namespace {

std::size_t stored_bytes(const MatmulWeight& weight) {
  const std::size_t packed = weight.kernel->packed_bytes(weight.spec);
  return packed > 0 ? packed : weight.tensor->tensor.bytes();
}

}  // namespace

ExecutionPlan::ExecutionPlan(const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device, int num_threads,
                             const ModelOptions& options)
    : file_(&file),
      registry_(&registry),
      device_(device),
      options_(options),
      limits_{options.max_batch_tokens, options.max_sequences, options.context_length, num_threads} {
  used_.insert("rope_freqs.weight");  // part of the configuration
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

const WeightVector* ExecutionPlan::vector(std::string_view name, std::int64_t dim) {
  const GgufTensor& found = tensor(name, {dim});
  if (const DType type = found.tensor.dtype; type != DType::f32 && type != DType::f16 && type != DType::bf16) {
    throw Error(fmt::format("{}: tensor {} is {}, a vector must be F32, F16 or BF16", file_->path().string(), quote(name),
                            rocmforge::name(found.tensor.dtype)));
  }
  bytes_per_token_ += static_cast<std::size_t>(dim) * sizeof(float);
  const auto known = std::ranges::find(vectors_, &found, &WeightVector::tensor);
  return known != vectors_.end() ? &*known : &vectors_.emplace_back(WeightVector{&found, {}, nullptr});
}

const WeightVector* ExecutionPlan::constants(std::span<const float> values) {
  const auto known = std::find_if(vectors_.begin(), vectors_.end(), [&](const WeightVector& other) {
    return other.values.data() == values.data() && other.values.size() == values.size();
  });
  return known != vectors_.end() ? &*known : &vectors_.emplace_back(WeightVector{nullptr, values, nullptr});
}

WeightTable* ExecutionPlan::embedding(std::string_view name, std::int64_t vocab, std::int64_t hidden) {
  const GgufTensor& table = tensor(name, {vocab, hidden});
  return with_context(file_->path().string() + ": tensor " + quote(name), [&] {
    return &tables_.emplace_back(WeightTable{resolve<EmbeddingRows>({table.tensor.dtype, vocab, hidden}), &table});
  });
}

bool ExecutionPlan::serves(std::string_view forced, const Attention::Spec& spec) const {
  return std::ranges::any_of(registry_->all<Attention>(), [&](const auto& kernel) {
    return kernel->device() == device_.kind && is_named(kernel->name(), forced) && kernel->supports(spec, device_).ok;
  });
}

StepAttention ExecutionPlan::attention(const Attention::Spec& spec) {
  Attention::Spec decode_spec = spec;
  decode_spec.decode = true;
  const std::string_view forced = options_.attention;
  const bool prefill_can = serves(forced, spec);
  const bool decode_can = serves(forced, decode_spec);
  const auto wanted = [&](bool can, bool other_can) { return can || !other_can ? forced : std::string_view(); };
  const Resolved<Attention> prefill = resolve<Attention>(spec, wanted(prefill_can, decode_can));
  const std::string_view decode_wanted = wanted(decode_can, prefill_can);
  const AttentionBackend* decode = registry_->choose<Attention>(decode_spec, device_, decode_wanted).kernel;
  if (decode != prefill.kernel) {
    resolve<Attention>(decode_spec, decode_wanted);
  }
  const KvLayout layout = decode->layout(decode_spec);
  KvLayout prefill_layout = prefill.kernel->layout(spec);
  prefill_layout.block_tokens = layout.block_tokens;  // any size is as good to read
  check(prefill_layout == layout, "the attention kernels for prefill and decode must agree on the layout of the cache");
  check(kv_layout_.kv_heads == 0 || kv_layout_ == layout, "all layers must agree on the layout of the cache");
  kv_layout_ = layout;
  needs_scratch(prefill.kernel->workspace_bytes(spec, limits_));
  needs_scratch(decode->workspace_bytes(decode_spec, limits_));
  attention_state_bytes_ = std::max(
      {attention_state_bytes_, prefill.kernel->state_bytes(spec, limits_), decode->state_bytes(decode_spec, limits_)});
  return {spec, *prefill.kernel, *decode};
}

void FusedLinear::run(std::int64_t tokens, const Step& step, const float* x, float* out) const {
  const MatmulFusions fusions = linear.fusions();
  LinearFusion fusion;
  if (tokens <= fusions.norm_tokens) {
    fusion.norm_weight = norm.weight->data;
    fusion.norm_eps = norm.operation.spec.eps;
  } else {
    norm.run(tokens, x, step.buffers.normed, step);
    x = step.buffers.normed;
  }
  if (!gate) {
    linear.run(tokens, step, x, out, fusion);
  } else if (tokens <= fusions.gate_tokens) {
    fusion.gate = gate->spec.activation;
    linear.run(tokens, step, x, out, fusion);
  } else {
    const float* projected = step.buffers.projected;
    linear.run(tokens, step, x, step.buffers.projected, fusion);
    gate->run({projected, projected + gate->spec.width, tokens, linear.width(), out}, step);
  }
}

FusedLinear ExecutionPlan::fused_linear(std::string_view operation, std::string_view norm, float norm_eps,
                                        const std::vector<LinearName>& names, std::int64_t k,
                                        std::optional<Activation> gate) {
  auto [linear, planned] = choose_linear(operation, names, k);
  const MatmulFusions fusions = linear.fusions();
  const std::string_view kind = operation_kind(operation);
  FusedLinear fused;
  fused.norm.weight = vector(norm, k);
  fused.norm.operation = resolve_part<RmsNorm>({k, norm_eps}, kind, fusions.norm_tokens);
  if (gate && fusions.gate_tokens > 0) {
    planned.activation_bytes -= static_cast<std::size_t>(names[1].n) * sizeof(float);
  }
  line(std::move(planned));
  if (gate) {
    fused.gate = resolve_part<GatedActivation>({*gate, names[0].n}, kind, fusions.gate_tokens);
  }
  fused.linear = std::move(linear);
  return fused;
}

Linear ExecutionPlan::linear(std::string_view operation, const std::vector<LinearName>& names, std::int64_t k) {
  auto [linear, planned] = choose_linear(operation, names, k);
  line(std::move(planned));
  return linear;
}

std::pair<Linear, PlannedOperation> ExecutionPlan::choose_linear(std::string_view operation,
                                                                 const std::vector<LinearName>& names, std::int64_t k) {
  std::vector<Linear::Part> parts;
  std::vector<Refusal> refusals;
  std::vector<std::string> specs;
  std::vector<std::string> kernels;
  std::size_t weight_bytes = 0;
  std::size_t activation_bytes = static_cast<std::size_t>(k) * sizeof(float);
  for (const LinearName& layer : names) {
    const MatmulWeight* weight = matmul_weight(layer, k, refusals);
    const std::string bias = layer.name + ".bias";
    parts.push_back({weight, layer.needs_bias || has_tensor(bias) ? vector(bias, layer.n) : nullptr});
    activation_bytes += static_cast<std::size_t>(layer.n) * sizeof(float);
    weight_bytes += stored_bytes(*weight);
    specs.push_back(to_string(weight->spec));
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
           .activation_bytes = activation_bytes}};
}

const MatmulWeight* ExecutionPlan::matmul_weight(const LinearName& layer, std::int64_t k, std::vector<Refusal>& refusals) {
  const std::string name = layer.name + ".weight";
  const GgufTensor& found = tensor(name, {layer.n, k});
  const Matmul::Spec spec{found.tensor.dtype, layer.n, k};
  Choice<Matmul> choice = with_context(file_->path().string() + ": tensor " + quote(name),
                                       [&] { return registry_->choose<Matmul>(spec, device_, options_.matmul); });
  for (Refusal& refusal : choice.refusals) {
    if (std::none_of(refusals.begin(), refusals.end(), [&](const Refusal& known) {
          return known.kernel == refusal.kernel && known.reason == refusal.reason;
        })) {
      refusals.push_back(std::move(refusal));
    }
  }
  needs_scratch(choice.kernel->workspace_bytes(options_.max_batch_tokens, k));
  return &matrices_.emplace_back(MatmulWeight{&found, spec, choice.kernel, nullptr});
}

std::size_t ExecutionPlan::packed_bytes() const {
  if (store_) {
    return store_->owned_bytes();
  }
  const bool gpu = device_.is_gpu();
  std::size_t total = 0;
  std::set<const GgufTensor*> raw;  // rows as the file has them are uploaded once, whoever reads them
  const auto add_raw = [&](const GgufTensor* tensor) {
    if (gpu && raw.insert(tensor).second) {
      total += WeightStore::copy_bytes(tensor->tensor.bytes());
    }
  };
  for (const MatmulWeight& weight : matrices_) {
    if (const std::size_t packed = weight.kernel->packed_bytes(weight.spec); packed > 0) {
      total += WeightStore::copy_bytes(packed);
    } else {
      add_raw(weight.tensor);
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
  const std::size_t total = packed_bytes();
  store_.emplace(*file_, device);
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

void ExecutionPlan::load_matrices(WeightStore& store, ThreadPool& pool, std::size_t total_bytes) {
  ExecutionContext context{&pool};
  std::size_t shown = 0;
  for (MatmulWeight& weight : matrices_) {
    const std::size_t packed_bytes = weight.kernel->packed_bytes(weight.spec);
    if (packed_bytes == 0) {
      weight.data = store.view(*weight.tensor);
    } else {
      weight.data = store.repack(*weight.tensor, packed_bytes, [&](const void* rows, void* packed) {
        weight.kernel->pack(weight.spec, rows, packed, context);
      });
    }
    if (options_.progress && store.owned_bytes() > shown) {
      shown = store.owned_bytes();
      options_.progress(static_cast<double>(shown) / static_cast<double>(total_bytes));
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
  const auto known = std::find_if(operations_.begin(), operations_.end(), [&](const PlannedOperation& other) {
    return other.operation == operation.operation && other.spec == operation.spec && other.part_of == operation.part_of;
  });
  if (known != operations_.end()) {
    known->times += operation.times;
  } else {
    operations_.push_back(std::move(operation));
  }
}

void ExecutionPlan::needs_scratch(std::size_t size_bytes) { scratch_bytes_ = std::max(scratch_bytes_, size_bytes); }

}  // namespace rocmforge
