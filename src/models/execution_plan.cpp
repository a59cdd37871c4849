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

ExecutionPlan::ExecutionPlan(const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device,
                             ThreadPool& pool, const ModelOptions& options)
    : file_(&file), registry_(&registry), device_(device), pool_(&pool), options_(options), store_(file) {
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

const float* ExecutionPlan::vector(std::string_view name, std::int64_t dim) {
  const GgufTensor& found = tensor(name, {dim});
  bytes_per_token_ += static_cast<std::size_t>(dim) * sizeof(float);
  return store_.floats(found);
}

Resolved<EmbeddingRows> ExecutionPlan::embedding(std::string_view name, std::int64_t vocab, std::int64_t hidden) {
  const GgufTensor& table = tensor(name, {vocab, hidden});
  return with_context(file_->path().string() + ": tensor " + quote(name), [&] {
    return resolve<EmbeddingRows>({table.tensor.dtype, vocab, hidden});
  });
}

Resolved<Attention> ExecutionPlan::attention(const Attention::Spec& spec) {
  const Resolved<Attention> resolved = resolve<Attention>(spec, options_.attention);
  const KvLayout layout = resolved.kernel->layout(spec);
  check(kv_layout_.kv_heads == 0 || kv_layout_ == layout, "all layers must agree on the layout of the cache");
  kv_layout_ = layout;
  needs_scratch(resolved.kernel->workspace_bytes(
      spec, {.max_tokens = options_.max_batch_tokens, .num_threads = pool_->num_threads()}));
  return resolved;
}

Norm ExecutionPlan::norm(std::string_view name, std::int64_t dim, float eps) {
  const float* weight = vector(name, dim);
  return {resolve<RmsNorm>({dim, eps}), weight};
}

Linear ExecutionPlan::linear(std::string_view operation, const std::vector<LinearName>& names, std::int64_t k) {
  std::vector<Linear::Part> parts;
  std::vector<Refusal> refusals;
  std::vector<std::string> specs;
  std::vector<std::string> kernels;
  std::size_t weight_bytes = 0;
  for (const LinearName& layer : names) {
    const MatmulWeight* weight = matmul_weight(layer, k, refusals);
    const std::string bias = layer.name + ".bias";
    parts.push_back({weight, layer.needs_bias || has_tensor(bias) ? vector(bias, layer.n) : nullptr});
    weight_bytes += stored_bytes(*weight);
    specs.push_back(to_string(weight->spec));
    if (const std::string kernel(weight->kernel->name()); kernels.empty() || kernels.back() != kernel) {
      kernels.push_back(kernel);
    }
  }
  bytes_per_token_ += weight_bytes;
  line(std::string(operation), fmt::format("{}", fmt::join(specs, " + ")), fmt::format("{}", fmt::join(kernels, " + ")),
       std::move(refusals), weight_bytes);
  return Linear(parts);
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
  return &weights_.emplace_back(MatmulWeight{&found, spec, choice.kernel, nullptr});
}

void ExecutionPlan::load_weights() {
  std::size_t total = 0;
  for (const MatmulWeight& weight : weights_) {
    total += weight.kernel->packed_bytes(weight.spec);
  }
  std::size_t done = 0;
  ExecutionContext context{pool_};
  for (MatmulWeight& weight : weights_) {
    const std::size_t packed_bytes = weight.kernel->packed_bytes(weight.spec);
    if (packed_bytes == 0) {
      weight.data = store_.view(*weight.tensor);
      continue;
    }
    weight.data = store_.repack(*weight.tensor, packed_bytes, [&](const void* rows, void* packed) {
      weight.kernel->pack(weight.spec, rows, packed, context);
    });
    done += packed_bytes;
    if (options_.progress) {
      options_.progress(static_cast<double>(done) / static_cast<double>(total));
    }
  }
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

void ExecutionPlan::line(std::string operation, std::string spec, std::string kernel, std::vector<Refusal> refusals,
                         std::size_t weight_bytes) {
  const bool known = std::any_of(operations_.begin(), operations_.end(), [&](const PlannedOperation& other) {
    return other.operation == operation && other.spec == spec;
  });
  if (!known) {
    operations_.push_back({std::move(operation), std::move(spec), std::move(kernel), std::move(refusals), weight_bytes});
  }
}

void ExecutionPlan::needs_scratch(std::size_t size_bytes) { scratch_bytes_ = std::max(scratch_bytes_, size_bytes); }

}  // namespace rocmforge
