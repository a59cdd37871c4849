#include "engine/plan_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <utility>

#include "base/available_memory.h"
#include "base/error.h"
#include "base/log.h"
#include "base/split.h"
#include "base/thread_pool.h"
#include "device/device_label.h"
#include "device/peers.h"
#include "engine/plan_encoders.h"
#include "engine/plan_stages.h"
#include "kernels/register_all.h"
#include "memory/kv_group.h"
#include "models/config/model_config.h"
#include "models/config/mtp_config.h"
#include "models/step/rank_processes.h"
#include "schedule/pages/sequence_state.h"
#include "schedule/pages/window_group.h"

namespace rocmforge {
namespace {

CpuIsa isa_limit(const std::string& wanted) {
  if (wanted.empty()) {
    return CpuIsa::avx512;
  }
  if (const auto isa = cpu_isa_from_name(wanted)) {
    return *isa;
  }
  throw Error(fmt::format("instruction set '{}' is not one of generic, neon, avx2, avxvnni, avx512", wanted));
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
  at_least("cache_ram_bytes", options.cache_ram_bytes, -1);
  at_least("cache_disk_bytes", options.cache_disk_bytes, 0);
  at_least("threads", options.threads, 0);
  at_least("ranks", options.model.ranks, 1);
  if ((options.model.ranks > 1 || options.model.processes != nullptr) && options.placement.any()) {
    throw Error("a model that ranks share can't be split over a GPU and the CPU too");
  }
  if (!options.tensor_split.empty() && (options.model.ranks > 1 || options.split == DeviceSplit::tensor)) {
    throw Error("--tensor-split divides layers: with --split tensor all devices have equal parts of each layer");
  }
  if (!names_several(options.device) && (!options.tensor_split.empty() || options.split == DeviceSplit::layer)) {
    throw Error("layers are divided among several devices, each named: --device cuda:0,cuda:1 or hip:0,hip:1");
  }
  if (options.model.processes != nullptr && (options.cache_ram_bytes > 0 || !options.cache_disk.empty() || options.slots)) {
    throw Error("prompts are not kept in host memory or files where processes share the model");
  }
  if (options.as_process && options.model.processes == nullptr) {
    throw Error(
        "--split tensor: this needs the other processes ('inspect' takes --ranks N, 'pull' downloads a model first)");
  }
  for (const DType type : {options.model.kv_dtype.k, options.model.kv_dtype.v}) {
    if (!is_kv_type(type)) {
      throw Error(fmt::format(
          "a KV cache of {} is not supported: choose F32, F16, BF16, Q8_0, Q5_1, Q5_0, Q4_1, Q4_0 or IQ4_NL", name(type)));
    }
  }
  (void)isa_limit(options.isa);
}

/// The device that `options` name, or one for each rank.
std::vector<std::unique_ptr<Device>> open_wanted_devices(const EngineOptions& options) {
  const KernelLibrary kernels = KernelLibrary::installed_or_from(options.kernel_dir);
  std::vector<std::unique_ptr<Device>> devices;
  if (names_several(options.device)) {
    prepare_for_peers();
  }
  for (const std::string_view name : split(options.device, ',')) {
    devices.push_back(open_device(name, kernels, isa_limit(options.isa)));
  }
  return devices;
}

/// Throws Error unless the devices are one, or GPUs of one kind: a GPU for each rank, where they share each layer.
void check_devices(const std::vector<std::unique_ptr<Device>>& devices, const EngineOptions& options) {
  const DeviceInfo& first = devices.front()->info();
  const std::int32_t ranks = options.model.ranks;
  if (devices.size() == 1 && (!first.is_gpu() || ranks == 1)) {
    return;
  }
  if (options.placement.host_beside_cpu && ranks == 1) {
    return;  // CPUs that count as devices for tests
  }
  if (!first.is_gpu() && ranks == 1) {
    throw Error("several devices that share a model are GPUs: --device cuda:0,cuda:1 or hip:0,hip:1");
  }
  if ((ranks > 1 && std::ssize(devices) != ranks) || !first.is_gpu()) {
    throw Error(fmt::format("{} ranks need as many GPUs, each named: --device cuda:0,cuda:1 or hip:0,hip:1", ranks));
  }
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceInfo& info = devices[i]->info();
    if (info.kind != first.kind || info.architecture != first.architecture) {
      throw Error(fmt::format("GPUs that share a model are of one architecture: {} is {}, {} is {}", first.name,
                              first.architecture, info.name, info.architecture));
    }
    for (std::size_t before = 0; before < i; ++before) {
      if (devices[before]->info().index == info.index) {
        throw Error(fmt::format("a GPU has one part of a model: {} is named twice", device_label(info)));
      }
    }
  }
}

}  // namespace

void refuse_kernels(const EngineOptions& options, KernelRegistry& registry) {
  for (const AvoidedKernel& kernel : options.without) {
    registry.avoid(kernel);
  }
  if (options.safe) {
    registry.allow_up_to(KernelPriority::portable, "--safe: only portable kernels");
  }
}

namespace {

/// --safe: each kernel runs alone, and its error names it.
void launch_one_by_one(EngineOptions& options, Device& device) {
  options.model.graphs = false;
  options.model.overlap = false;
  if (device.is_gpu()) {
    device.stream().wait_after_launches(true);
  }
}

/// `opened`, or the devices that `options` name.
void take_devices(PlannedModel& planned, std::unique_ptr<Device> opened, EngineOptions& options) {
  std::vector<std::unique_ptr<Device>> devices;
  if (opened != nullptr) {
    devices.push_back(std::move(opened));
  } else {
    devices = open_wanted_devices(options);
  }
  check_devices(devices, options);
  if (options.safe) {
    std::ranges::for_each(devices, [&](const auto& device) { launch_one_by_one(options, *device); });
  }
  planned.device = std::move(devices.front());
  devices.erase(devices.begin());
  planned.further = std::move(devices);
}

}  // namespace

Devices devices_of(Device& first, Device* host, std::span<const std::unique_ptr<Device>> further) {
  if (further.empty()) {
    return {first, host};
  }
  std::vector<Device*> devices{&first};
  std::ranges::for_each(further, [&](const auto& device) { devices.push_back(device.get()); });
  return Devices(std::move(devices), host);
}

LaunchMerging decide_merging(const EngineOptions& options, const KernelRegistry& registry, const DeviceInfo& device,
                             const std::optional<CheckRecord>& record) {
  if (std::ranges::none_of(registry.all<Matmul>(), [&](const auto& kernel) {
        return kernel->device() == device.kind && kernel->merges_launches(device);
      })) {
    return {false, "no kernel of this device merges them"};
  }
  if (options.safe) {
    return {false, "--safe"};
  }
  const MergeLaunches wanted = options.merge_launches;
  if (wanted != MergeLaunches::automatic) {
    const bool on = wanted == MergeLaunches::on;
    return {on, on ? "--merge-launches on" : "--merge-launches off"};
  }
  if (!record || !record->merged) {
    return {false, "no saved check of this device, its driver and kernels (rocmforge check --save)"};
  }
  return {record->merged->pays, fmt::format("the check of {}: {}", record->date, record->merged->found)};
}

namespace {

/// Limits what counts as available of the device's memory. A CPU that counts as a device holds all its weights itself.
void limit_memory(PlannedModel& planned, const PlacementOptions& options) {
  MemoryNeeds& needs = planned.memory;
  const auto limit = [&options](MemoryNeeds& of_device) {
    of_device.available_bytes =
        std::min(of_device.available_bytes.value_or(options.gpu_memory_bytes), options.gpu_memory_bytes);
  };
  if (options.gpu_memory_bytes > 0 && can_split(planned.device->info(), options)) {
    limit(needs);
    std::ranges::for_each(planned.stage_memory, limit);
  }
  if (!planned.stage_memory.empty()) {
    needs = tightest(planned.stage_memory);
    return;
  }
  if (!planned.device->is_gpu() && options.host_beside_cpu) {
    needs.weight_bytes = static_cast<std::int64_t>(planned.model->device_weight_bytes());
    needs.workspace_bytes = static_cast<std::int64_t>(planned.model->workspace_bytes());
  }
}

/// The processors for this process.
int own_processors(const RankProcesses* processes) {
  const int available = available_processors();
  const bool shared = processes != nullptr && processes->share_processors();
  return shared ? std::max(1, available / processes->on_this_host()) : available;
}

/// The processes of a host share its memory, and the file's pages are in it once.
void count_processes(PlannedModel& planned, const RankProcesses* processes) {
  if (processes == nullptr) {
    return;
  }
  MemoryNeeds& needs = planned.memory;
  needs.weight_bytes = static_cast<std::int64_t>(planned.model->device_weight_bytes());
  needs.workspace_bytes = static_cast<std::int64_t>(planned.model->workspace_bytes());
  if (needs.available_bytes) {
    needs.available_bytes = *needs.available_bytes / processes->on_this_host();
  }
}

/// Decides whether the file's MTP blocks draft, where that is left open. A file may tell their number and have them in
/// another file.
void decide_mtp(DraftOptions& drafts, const GgufFile& file, const ModelConfig& config) {
  if (drafts.mtp == MtpUse::on && !drafts.model.empty()) {
    throw Error("a draft model and the file's MTP blocks can't draft both");
  }
  if (drafts.mtp == MtpUse::automatic) {
    const bool has_blocks =
        std::ranges::any_of(file.tensors(), [&config](const GgufTensor& tensor) { return is_of_mtp(tensor.name, config); });
    const bool use = has_blocks && config.mtp_supported && drafts.model.empty() && drafts.most > 0;
    drafts.mtp = use ? MtpUse::on : MtpUse::off;
  }
}

/// Opens what the options name where it is a part of the model: an EAGLE3 draft or an assistant.
void open_draft(PlannedModel& planned, const EngineOptions& options, const ModelConfig& config) {
  if (options.drafts.model.empty()) {
    return;
  }
  GgufFile file(options.drafts.model);
  const std::int32_t context = context_length(options, config);
  if (is_eagle_file(file)) {
    planned.eagle = std::make_shared<const EagleFile>(std::move(file), *planned.file, config, context);
  } else if (is_assistant_file(file)) {
    planned.assistant = std::make_shared<const AssistantFile>(std::move(file), *planned.file, config, context);
  }
}

/// Whether memory decides the context.
bool chooses_context(const EngineOptions& options, const ModelConfig& config) {
  return options.context_length == 0 && options.fitting_contexts > 0 && !config.encoder.is_encoder &&
         options.drafts.model.empty() && options.model.processes == nullptr;
}

/// The positions of a cache for contexts of that length.
std::int64_t cache_tokens(const EngineOptions& options, std::int64_t context) {
  return options.kv_tokens > 0           ? options.kv_tokens
         : options.fitting_contexts == 0 ? context
                                         : tokens_of_contexts(context, options.fitting_contexts, options.max_sequences);
}

/// Splits the model over its device and the host. `plan` plans it anew with `model_options`.
void place(PlannedModel& planned, const EngineOptions& options, ModelOptions& model_options,
           const std::function<void()>& plan) {
  const std::string path = planned.file->path().string();
  const PlacementWishes wishes = placement_wishes(options.placement, *planned.file, planned.model->config().layers);
  PlacementNeeds needs =
      naming_file(path, [&] { return placement_needs(planned, model_options, options.placement, options.ceilings_file); });
  const std::string why = options.placement.any() ? "as asked for" : "as the GPU's memory can't hold all";
  // The needs of a part alone are not quite those of the plan with all parts in their places, and several devices may each
  // have room for less than a layer.
  const int most_attempts = planned.stage_memory.empty() ? 4 : 16;
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    ChosenPlacement chosen = choose_placement(needs, wishes);
    if (!chosen.placement.split() && (planned.memory.fits() || planned.stage_memory.empty() || wishes.gpu_layers)) {
      return;
    }
    const std::int64_t wanted = chosen.bytes.device;
    model_options.placement = chosen.placement;
    plan();
    if (!chosen.placement.split()) {
      needs.available.device = wanted - 1;
      continue;
    }
    planned.host = std::make_unique<Device>(model_options.host_isa);
    planned.host_memory = host_memory_needs(*planned.model, planned.memory);
    planned.placement = PlannedPlacement{needs, std::move(chosen), why};
    planned.placement->chosen.bytes = {planned.device_bytes(), planned.host_memory->total_bytes()};
    if (planned.memory.fits() || wishes.gpu_layers) {
      return;
    }
    needs.available.device -= planned.memory.total_bytes() - *planned.memory.available_bytes;
    if (!planned.stage_memory.empty()) {  // at least one part more on the host
      needs.available.device = std::min(needs.available.device, wanted - 1);
    }
  }
}

}  // namespace

std::int64_t PlannedModel::device_bytes() const {
  std::int64_t bytes = stage_memory.empty() ? memory.total_bytes() : 0;
  for (const MemoryNeeds& stage : stage_memory) {
    bytes += stage.total_bytes();
  }
  return bytes;
}

PlannedModel plan_model(const std::string& path, const EngineOptions& wanted, std::unique_ptr<Device> device) {
  check_options(wanted);
  PlannedModel planned;
  planned.file = std::make_unique<const GgufFile>(path);  // its errors name it
  const ModelConfig config = ModelConfig::from_gguf(*planned.file);
  EngineOptions options = wanted;
  if (!options.mmproj.empty()) {
    open_encoders(planned, config, options);
  }
  planned.max_batch_tokens = options.max_batch_tokens;
  decide_mtp(options.drafts, *planned.file, config);
  open_draft(planned, options, config);
  take_devices(planned, std::move(device), options);
  auto registry = std::make_unique<KernelRegistry>();
  register_all_kernels(*registry, planned.device.get());
  refuse_kernels(options, *registry);
  std::optional<CheckRecord> record;
  if (!options.checks_folder.empty()) {
    record = find_check_record(options.checks_folder, checked_device(*planned.device, options.version));
  }
  if (record) {
    avoid_checked_kernels(*record, *registry);
    if (record->product_groups && planned.device->info().kind == DeviceKind::hip) {
      choose_product_groups(*planned.device, *record->product_groups);
      for (const auto& further : planned.further) {
        choose_product_groups(*further, *record->product_groups);
      }
      planned.product_groups = *record->product_groups;
    }
  }
  planned.merging = decide_merging(options, *registry, planned.device->info(), record);
  planned.registry = std::move(registry);
  planned.threads = options.threads > 0 ? options.threads : own_processors(options.model.processes);

  ModelOptions model_options = options.model;
  model_options.max_batch_tokens = std::max(model_options.max_batch_tokens, step_tokens(options, config));
  model_options.max_logit_rows = max_logit_rows(options);
  model_options.load_mtp = options.drafts.mtp == MtpUse::on;
  model_options.eagle = planned.eagle;
  model_options.assistant = planned.assistant;
  model_options.max_sequences = options.max_sequences;
  if (!options.control_vectors.empty()) {
    planned.control =
        std::make_shared<const ControlVectors>(options.control_vectors, options.control_layers, config,
                                               std::max(model_options.max_batch_tokens, model_options.max_logit_rows));
    model_options.control = planned.control;
  }
  const bool chooses = chooses_context(options, config);
  model_options.merge_launches = planned.merging.on;
  model_options.host_isa = isa_limit(options.isa);
  bool layers = false;  // each of several devices has some of them
  const auto plan_once = [&] {
    planned.model = naming_file(path, [&] {
      return Model::plan(*planned.file, *planned.registry, planned.device->info(), planned.threads, model_options);
    });
    plan_encoders(planned, config, options, model_options.small_weights);
    const GgufFile* const draft = planned.draft_file();
    const std::uint64_t draft_bytes = draft != nullptr ? draft->file_bytes() : 0;
    planned.memory = memory_needs(planned.file->file_bytes() + draft_bytes, *planned.model, planned.devices(),
                                  cache_tokens(options, model_options.context_length),
                                  std::min(options.max_sequences, options.max_batch_tokens), step_tokens(options, config));
    planned.stage_memory.clear();
    if (!model_options.stage_ends.empty()) {
      planned.stage_memory = stage_memory_needs(*planned.model, planned.devices(), planned.memory);
    }
    count_processes(planned, options.model.processes);
    count_encoders(planned);
    limit_memory(planned, options.placement);
  };
  const auto plan = [&] {
    model_options.stage_ends.clear();
    plan_once();
    if (layers) {
      divide_layers(planned, options, model_options, plan_once);
    }
  };
  const auto plan_with_context = [&] {
    model_options.context_length = chooses ? config.context_length : context_length(options, config);
    plan();
    if (chooses) {
      const auto fitting = [&](const MemoryNeeds& needs) {
        return fitting_context(needs, planned.device->is_gpu(), options.fitting_contexts, options.kv_tokens,
                               config.context_length);
      };
      std::int32_t chosen = fitting(planned.memory);
      for (const MemoryNeeds& stage : planned.stage_memory) {
        chosen = std::min(chosen, fitting(stage));
      }
      if (std::exchange(model_options.context_length, chosen) != chosen) {
        plan();
      }
    }
    planned.context_length = model_options.context_length;
  };
  std::string why_split;
  if (planned.further.empty()) {
    plan_with_context();
  } else {
    why_split = naming_file(path, [&] {
      return choose_split(planned, options, config, [&](DeviceSplit split) {
        layers = split == DeviceSplit::layer;
        model_options.ranks = layers ? 1 : static_cast<std::int32_t>(planned.further.size()) + 1;
        plan_with_context();
      });
    });
  }
  if (!planned.memory.fits() && model_options.load_mtp && wanted.drafts.mtp == MtpUse::automatic) {
    log_warning("{}: there is no memory for its MTP blocks, which do not draft", path);
    model_options.load_mtp = false;
    plan_with_context();
  }
  planned.mtp = model_options.load_mtp;
  // Some GPU kernels are fast because their layouts are larger than the file's. If these do not fit, smaller layouts are
  // used.
  if (planned.device->info().is_gpu() && !planned.memory.fits() && !model_options.small_weights) {
    model_options.small_weights = true;
    plan_with_context();
  }
  const bool shared = model_options.ranks > 1 || options.model.processes != nullptr;
  if (!shared && can_split(planned.device->info(), options.placement) &&
      (options.placement.any() || !planned.memory.fits())) {
    place(planned, options, model_options, plan);
  }
  if (!why_split.empty()) {
    planned.split = describe_split(planned, options, why_split);
  }
  return planned;
}

std::int32_t step_tokens(const EngineOptions& options, const ModelConfig& config) {
  return config.encoder.is_encoder ? std::max(options.max_batch_tokens, context_length(options, config))
                                   : options.max_batch_tokens;
}

std::int32_t context_length(const EngineOptions& options, const ModelConfig& config) {
  return options.context_length > 0 ? options.context_length : std::min(config.context_length, default_context_limit);
}

std::int32_t max_logit_rows(const EngineOptions& options) {
  constexpr std::int32_t rows_with_drafts = 3;
  const std::int32_t wanted = options.max_sequences * (options.drafts.are_on() ? rows_with_drafts : 1);
  return std::max(options.model.max_logit_rows, std::min(wanted, std::max(options.max_sequences, options.max_batch_tokens)));
}

}  // namespace rocmforge
