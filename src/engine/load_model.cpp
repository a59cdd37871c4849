#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "engine/agreement.h"
#include "engine/draft_model.h"
#include "engine/engine.h"
#include "engine/engine_parts.h"
#include "engine/load_tokenizer.h"
#include "engine/plan_model.h"
#include "engine/prompt_cache.h"
#include "engine/sampling_defaults.h"
#include "models/process_rank.h"

namespace rocmforge {

namespace {

/// Both put rows into the same memory, so that those of a step follow each other.
void load_encoders(PlannedModel& planned, EngineParts& parts) {
  parts.mmproj_file = std::move(planned.mmproj_file);
  parts.vision = std::move(planned.vision);
  parts.audio = std::move(planned.audio);
  if (parts.vision != nullptr) {
    parts.vision->load(*parts.device, *parts.pool);
  }
  if (parts.audio != nullptr) {
    parts.audio->load(*parts.device, *parts.pool, parts.vision != nullptr ? parts.vision->row_memory() : nullptr);
  }
}

EngineParts load_parts(PlannedModel planned, const EngineOptions& options) {
  if (planned.placement) {
    log_warning("{}: {}", planned.file->path().string(), planned.placement->describe());
  }
  if (!planned.split.empty()) {
    log_warning("{}: {}", planned.file->path().string(), planned.split);
  }
  const std::int64_t block_tokens = block_tokens_of(planned.model->kv_groups());
  if (const MemoryNeeds& needs = planned.memory; needs.blocks[0] * block_tokens < needs.kv_tokens) {
    throw Error(fmt::format("kv_tokens is {}, more than block ids can count", needs.kv_tokens));
  }
  EngineParts parts;
  parts.file = std::move(planned.file);
  const ModelConfig& config = planned.model->config();
  if (const std::int32_t context = context_length(options, config); context > config.context_length) {
    log_warning("{}: a context of {} tokens was asked for, the model was trained with {}", parts.file->path().string(),
                context, config.context_length);
  }
  parts.control = std::move(planned.control);
  parts.eagle = std::move(planned.eagle);
  parts.assistant = std::move(planned.assistant);
  parts.tokenizer = load_tokenizer(*parts.file);
  parts.sampling = sampling_defaults(*parts.file);
  parts.registry = std::move(planned.registry);
  parts.pool = std::make_unique<ThreadPool>(planned.threads);
  parts.device = std::move(planned.device);
  parts.further = std::move(planned.further);
  parts.model = std::move(planned.model);
  parts.host = std::move(planned.host);
  const Devices devices = devices_of(*parts.device, parts.host.get(), parts.further);
  parts.model->load(devices, *parts.pool);
  parts.memory =
      std::make_unique<SequenceMemory>(devices, parts.model->of_rank(0).kv_groups(),
                                       memory_size(*parts.model, planned.memory.blocks, planned.memory.state_slots));
  if (planned.mmproj_file != nullptr && leads(options)) {
    load_encoders(planned, parts);
  }
  return parts;
}

/// Plans and loads a model, on all of its processes if there are several; sets what the plan decides.
EngineParts plan_and_load(const std::string& path, EngineOptions& options, std::unique_ptr<Device> device) {
  RankProcesses* const processes = options.model.processes;
  PlannedModel planned = agreed(processes, [&] {
    PlannedModel own = plan_model(path, options, std::move(device));
    // Weights and cache must fit in memory before anything is read, because a machine that swaps is too slow to be useful.
    if (const MemoryNeeds* lacking = own.lacking()) {
      throw Error(describe_shortage(*lacking)).in(path);
    }
    return own;
  });
  options.max_batch_tokens = planned.max_batch_tokens;
  if (const std::int32_t own = planned.model->config().context_length;
      options.context_length == 0 && options.fitting_contexts > 0 && planned.context_length < own) {
    log_warning("{}: the context has {} of the model's {} tokens, which is what fits in free memory {} times (-c)", path,
                planned.context_length, own, options.fitting_contexts);
  }
  options.context_length = planned.context_length;
  const bool has_draft = planned.draft_file() != nullptr;
  options.drafts.mtp = planned.mtp || has_draft ? MtpUse::on : MtpUse::off;
  if (has_draft) {
    options.drafts.model.clear();  // it is a part of the model, no model of its own
  }
  options.cache_ram_bytes = cache_ram_bytes(options, planned);
  if (processes != nullptr) {
    check_agreement(*processes, planned, options);
  }
  return agreed(processes, [&] { return naming_file(path, [&] { return load_parts(std::move(planned), options); }); });
}

ProcessRank& process_rank(const EngineParts& parts) { return dynamic_cast<ProcessRank&>(*parts.model); }

/// It has memory for as many positions as the model.
std::unique_ptr<Engine> load_draft_model(const EngineParts& parts, const EngineOptions& options) {
  EngineOptions own = options;
  own.drafts = {.mtp = MtpUse::off};
  own.adapters.clear();
  own.mmproj.clear();
  own.context_length = context_length(options, parts.model->config());
  own.kv_tokens = std::max<std::int64_t>(options.kv_tokens, own.context_length);
  own.max_waiting = -1;
  own.prefix_cache = true;
  own.cache_disk.clear();
  own.slots = false;
  own.control_vectors.clear();
  own.cache_ram_bytes = 0;  // what it lacks it computes faster than the model's blocks are copied
  own.model.progress = nullptr;
  own.model.ranks = 1;  // its sums would take longer than its layers
  own.device = own.device.substr(0, own.device.find(','));
  own.split = DeviceSplit::automatic;
  own.tensor_split.clear();
  own.model.processes = nullptr;
  const std::string& path = options.drafts.model;
  std::unique_ptr<Engine> engine = load_model(path, own);
  naming_file(path, [&] {
    check_draft_vocabulary(parts.tokenizer.get(), parts.model->config().vocab, engine->tokenizer().get(),
                           engine->model().config().vocab);
  });
  return engine;
}

}  // namespace

void follow_model(const std::string& path, const EngineOptions& wanted) {
  EngineOptions options = wanted;
  const EngineParts parts = plan_and_load(path, options, nullptr);
  process_rank(parts).follow(*parts.memory);
}

std::unique_ptr<Engine> load_model(const std::string& path, const EngineOptions& options) {
  return load_model(path, options, nullptr);
}

std::unique_ptr<Engine> load_model(const std::string& path, const EngineOptions& wanted, std::unique_ptr<Device> device) {
  EngineOptions options = wanted;
  EngineParts parts = plan_and_load(path, options, std::move(device));
  if (!options.cache_disk.empty() && (options.cache_ram_bytes == 0 || !options.prefix_cache)) {
    throw Error("prompts in files need host memory for prompts, and the prefix cache");
  }
  if (options.slots && (options.cache_ram_bytes == 0 || !options.prefix_cache)) {
    throw Error("slots need host memory for prompts, and the prefix cache");
  }
  if (wanted.cache_ram_bytes > 0 || !wanted.cache_disk.empty() || wanted.slots) {
    if (const std::string reason = host_copies_refusal(*parts.memory, options.cache_ram_bytes); !reason.empty()) {
      log_warning("{}: prompts are not kept in host memory: {}", path, reason);
    }
  }
  if (options.model.processes != nullptr) {
    process_rank(parts).lead();
  }
  if (!options.drafts.model.empty()) {
    parts.draft_model = load_draft_model(parts, options);
  }
  auto engine = naming_file(path, [&] { return make_engine(std::move(parts), options); });
  for (const AdapterOptions& adapter : options.adapters) {
    engine->load_adapter(adapter);
  }
  return engine;
}

}  // namespace rocmforge
