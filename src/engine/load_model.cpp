#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "device/device_info.h"
#include "engine/available_memory.h"
#include "engine/engine.h"
#include "engine/engine_parts.h"
#include "engine/load_tokenizer.h"
#include "kernels/register_all.h"
#include "models/model_config.h"

namespace rocmforge {

namespace {

CpuIsa isa_limit(const std::string& wanted) {
  if (wanted.empty()) {
    return CpuIsa::avx512;
  }
  if (const auto isa = cpu_isa_from_name(wanted)) {
    return *isa;
  }
  throw Error(fmt::format("instruction set '{}' is not one of generic, neon, avx2, avx512", wanted));
}

void check_options(const EngineOptions& options) {
  const auto at_least = [](const char* option, std::int64_t value, std::int64_t least) {
    if (value < least) {
      throw Error(fmt::format("{} is {}, must be at least {}", option, value, least));
    }
  };
  at_least("context_length", options.context_length, 0);
  at_least("max_batch_tokens", options.max_batch_tokens, 1);
  at_least("max_sequences", options.max_sequences, 1);
  at_least("kv_tokens", options.kv_tokens, 0);
  at_least("threads", options.threads, 0);
  const DType dtype = options.model.kv_dtype;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) {
    throw Error(fmt::format("a KV cache of {} is not supported: choose F32, F16 or BF16", name(dtype)));
  }
  (void)isa_limit(options.isa);
}

/// Weights and cache must fit before anything is read: a machine that swaps serves nobody.
void check_memory(const GgufFile& file, const ModelConfig& config, DType kv_dtype, std::int64_t kv_tokens) {
  const auto available = available_memory_bytes();
  if (!available) {
    return;
  }
  constexpr double gibibyte = 1024.0 * 1024.0 * 1024.0;
  const double token_bytes = 2.0 * config.layers * static_cast<double>(row_bytes(kv_dtype, config.kv_dim()));
  const double weights = static_cast<double>(file.file_bytes());
  const double cache = token_bytes * static_cast<double>(kv_tokens);
  const double left = static_cast<double>(*available) - weights;
  if (cache <= left) {
    return;
  }
  const std::string advice = left >= token_bytes
                                 ? fmt::format("{} tokens would fit", static_cast<std::int64_t>(left / token_bytes))
                                 : std::string("no context would fit");
  throw Error(
      fmt::format("needs {:.2f} GiB of memory (weights {:.2f}, KV cache of {} tokens {:.2f}), {:.2f} GiB are "
                  "available: {}",
                  (weights + cache) / gibibyte, weights / gibibyte, kv_tokens, cache / gibibyte,
                  static_cast<double>(*available) / gibibyte, advice));
}

std::int32_t blocks_for(std::int64_t tokens, std::int32_t block_tokens) {
  const std::int64_t blocks = tokens / block_tokens + (tokens % block_tokens != 0 ? 1 : 0);
  if (blocks > std::numeric_limits<std::int32_t>::max()) {
    throw Error(fmt::format("kv_tokens is {}, more than block ids can count", tokens));
  }
  return static_cast<std::int32_t>(blocks);
}

EngineParts load_parts(std::unique_ptr<const GgufFile> file, const EngineOptions& options) {
  EngineParts parts;
  parts.file = std::move(file);
  const ModelConfig config = ModelConfig::from_gguf(*parts.file);
  const std::int32_t context = context_length(options, config);
  const std::int64_t kv_tokens = options.kv_tokens > 0 ? options.kv_tokens : context;
  check_memory(*parts.file, config, options.model.kv_dtype, kv_tokens);
  if (context > config.context_length) {
    log_warning("{}: a context of {} tokens was asked for, the model was trained with {}", parts.file->path().string(),
                context, config.context_length);
  }
  parts.tokenizer = load_tokenizer(*parts.file);

  auto registry = std::make_unique<KernelRegistry>();
  register_all_kernels(*registry);
  parts.registry = std::move(registry);
  parts.pool = std::make_unique<ThreadPool>(options.threads > 0 ? options.threads : available_processors());
  const DeviceInfo device = cpu_device_info(isa_limit(options.isa));

  ModelOptions model_options = options.model;
  model_options.max_batch_tokens = std::max(model_options.max_batch_tokens, options.max_batch_tokens);
  model_options.max_logit_rows = std::max(model_options.max_logit_rows, options.max_sequences);
  parts.model = Model::load(*parts.file, *parts.registry, device, *parts.pool, model_options);
  const KvLayout layout = parts.model->kv_layout();
  parts.cache = std::make_unique<KvCache>(layout, config.layers, blocks_for(kv_tokens, layout.block_tokens));
  return parts;
}

}  // namespace

std::int32_t context_length(const EngineOptions& options, const ModelConfig& config) {
  return options.context_length > 0 ? options.context_length : std::min(config.context_length, default_context_limit);
}

std::unique_ptr<Engine> load_model(const std::string& path, const EngineOptions& options) {
  check_options(options);
  try {
    return make_engine(load_parts(std::make_unique<const GgufFile>(path), options), options);
  } catch (Error& error) {
    // What is wrong inside the file names it already; what is wrong with the machine does not.
    if (!std::string_view(error.what()).starts_with(path)) {
      error.in(path);
    }
    throw;
  }
}

}  // namespace rocmforge
