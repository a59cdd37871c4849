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
#include "device/peers.h"
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
  if (options.model.processes != nullptr && (options.cache_ram_bytes > 0 || !options.cache_disk.empty())) {
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

bool names_several(std::string_view device) { return device.find(',') != std::string_view::npos; }

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

/// Throws Error unless the devices are one, or a GPU of one kind for each rank.
void check_devices(const std::vector<std::unique_ptr<Device>>& devices, const EngineOptions& options) {
  const DeviceInfo& first = devices.front()->info();
  const std::int32_t ranks = options.model.ranks;
  if (devices.size() == 1 && (!first.is_gpu() || ranks == 1)) {
    return;
  }
  if (std::ssize(devices) != ranks || !first.is_gpu()) {
    throw Error(fmt::format("{} ranks need as many GPUs, each named: --device cuda:0,cuda:1 or hip:0,hip:1", ranks));
  }
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceInfo& info = devices[i]->info();
    if (info.kind != first.kind || info.architecture != first.architecture) {
      throw Error(fmt::format("ranks are GPUs of one architecture: {} is {}, {} is {}", first.name, first.architecture,
                              info.name, info.architecture));
    }
    for (std::size_t before = 0; before < i; ++before) {
      if (devices[before]->info().index == info.index) {
        throw Error(fmt::format("each rank needs a GPU of its own: {}:{} is named twice", name(info.kind), info.index));
      }
    }
  }
}

/// The least number of slots of recurrent state for computed prefixes. There are as many as the sequences have, if that is
/// more.
constexpr std::int32_t least_kept_states = 16;

/// Of the pages on one side of groups whose number of blocks is known, of `ranks` that share the memory.
void count_page_bytes(MemoryNeeds& needs, const Model& model, Side side, std::int32_t ranks) {
  const KvGroups& groups = model.kv_groups();
  needs.kv_bytes_per_token =
      ranks * static_cast<std::int64_t>(block_bytes_of(groups.front(), side)) / block_tokens_of(groups);
  needs.window_bytes = 0;
  for (std::size_t group = 1; group < groups.size(); ++group) {
    needs.window_bytes += ranks * needs.blocks[group] * static_cast<std::int64_t>(block_bytes_of(groups[group], side));
  }
}

void count_pages(MemoryNeeds& needs, const Model& model, std::int32_t max_sequences, std::int32_t max_batch_tokens,
                 std::int32_t ranks) {
  const KvGroups& groups = model.kv_groups();
  const std::int32_t block_tokens = block_tokens_of(groups);
  const std::int64_t wanted = needs.kv_tokens / block_tokens + (needs.kv_tokens % block_tokens != 0 ? 1 : 0);
  const auto full_blocks =
      static_cast<std::int32_t>(std::min<std::int64_t>(wanted, std::numeric_limits<std::int32_t>::max()));
  needs.blocks.assign(1, full_blocks);
  for (const KvGroup& group : std::span(groups).subspan(1)) {
    const std::int32_t blocks = window_blocks(group.window, block_tokens, full_blocks, max_sequences, max_batch_tokens);
    needs.blocks.push_back(blocks);
  }
  count_page_bytes(needs, model, Side::device, ranks);
}

/// What the fullest of the ranks needs on its GPU, and the least that one of these has.
void count_ranks(MemoryNeeds& needs, const Model& model, const Devices& devices) {
  needs.where = "each GPU's ";
  needs.weight_bytes = needs.workspace_bytes = 0;
  const std::vector<RankBytes> ranks = model.rank_bytes();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    needs.weight_bytes = std::max(needs.weight_bytes, static_cast<std::int64_t>(ranks[rank].weights));
    needs.workspace_bytes = std::max(needs.workspace_bytes, static_cast<std::int64_t>(ranks[rank].workspace));
    const std::int64_t free_bytes = devices.of_rank(rank).at(Side::device).memory()->free_bytes;
    needs.available_bytes = std::min(needs.available_bytes.value_or(free_bytes), free_bytes);
  }
}

}  // namespace

// The CPU reads weights in the mapped file, or in copies that replace them; copies in a wider form are
// larger than the file. A GPU holds copies of all.
MemoryNeeds memory_needs(std::uint64_t file_bytes, const Model& model, const Devices& devices, std::int64_t kv_tokens,
                         std::int32_t max_sequences, std::int32_t max_batch_tokens) {
  Device& device = devices.at(Side::device);
  const std::int32_t ranks = device.is_gpu() ? 1 : model.ranks();  // that share its memory
  MemoryNeeds needs;
  needs.kv_tokens = kv_tokens;
  count_pages(needs, model, max_sequences, max_batch_tokens, ranks);
  if (model.state_bytes() + model.host_state_bytes() > 0) {
    needs.state_slots = SequenceState::own_slots * max_sequences + std::max(max_sequences, least_kept_states);
    needs.slot_bytes = ranks * static_cast<std::int64_t>(model.state_bytes());
  }
  if (device.is_gpu() && model.ranks() > 1) {
    count_ranks(needs, model, devices);
  } else if (const auto memory = device.memory()) {
    needs.weight_bytes = static_cast<std::int64_t>(model.packed_bytes());
    needs.workspace_bytes = static_cast<std::int64_t>(model.workspace_bytes());
    needs.available_bytes = memory->free_bytes;
  } else {
    needs.weight_bytes = static_cast<std::int64_t>(std::max<std::uint64_t>(file_bytes, model.packed_bytes()));
    needs.available_bytes = available_memory_bytes();
  }
  return needs;
}

MemoryNeeds host_memory_needs(const Model& model, const MemoryNeeds& of_device) {
  MemoryNeeds needs = of_device;
  needs.where = "host ";
  count_page_bytes(needs, model, Side::host, 1);
  needs.slot_bytes = static_cast<std::int64_t>(model.host_state_bytes());
  needs.weight_bytes = static_cast<std::int64_t>(model.host_weight_bytes());
  needs.workspace_bytes = static_cast<std::int64_t>(model.host_workspace_bytes());
  needs.available_bytes = available_memory_bytes();
  return needs;
}

std::optional<std::int64_t> available_host_bytes() { return available_memory_bytes(); }

std::int64_t MemoryNeeds::fitting_tokens() const {
  if (!available_bytes) {
    return -1;
  }
  const std::int64_t left = std::max<std::int64_t>(0, *available_bytes - fixed_bytes());
  return kv_bytes_per_token > 0 ? left / kv_bytes_per_token : (fits() ? kv_tokens : 0);
}

std::int32_t fitting_context(const MemoryNeeds& needs, bool on_gpu, std::int32_t contexts, std::int64_t kv_tokens,
                             std::int32_t own) {
  constexpr std::int64_t step = 256;
  constexpr std::int64_t least_margin = std::int64_t{512} << 20;
  const std::int64_t least = std::min(own, default_context_limit);
  if (kv_tokens > 0) {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(kv_tokens, least, own));
  }
  if (!needs.available_bytes) {
    return static_cast<std::int32_t>(least);
  }
  const std::int64_t left = *needs.available_bytes - needs.fixed_bytes();
  const std::int64_t usable = on_gpu ? left - std::max(left / 16, least_margin) : left / 2;
  if (needs.kv_bytes_per_token == 0) {
    return static_cast<std::int32_t>(usable >= 0 ? own : least);
  }
  const std::int64_t tokens = usable / (needs.kv_bytes_per_token * contexts) / step * step;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(tokens, least, own));
}

std::string describe_shortage(const MemoryNeeds& needs) {
  constexpr double gibibyte = 1024.0 * 1024.0 * 1024.0;
  const auto gib = [](double bytes) { return bytes / gibibyte; };
  const double cache = static_cast<double>(needs.kv_tokens) * static_cast<double>(needs.kv_bytes_per_token) +
                       static_cast<double>(needs.window_bytes);
  const double states = static_cast<double>(needs.state_slots * needs.slot_bytes);
  const std::string workspace =
      needs.workspace_bytes > 0 ? fmt::format(", workspace {:.2f}", gib(static_cast<double>(needs.workspace_bytes))) : "";
  const std::string state = states > 0.0 ? fmt::format(", recurrent state {:.2f}", gib(states)) : "";
  return fmt::format(
      "needs {:.2f} GiB of {}memory (weights {:.2f}{}{}, KV cache of {} tokens {:.2f}), {:.2f} GiB are available: {}",
      gib(static_cast<double>(needs.total_bytes())), needs.where, gib(static_cast<double>(needs.weight_bytes)), workspace,
      state, needs.kv_tokens, gib(cache), gib(static_cast<double>(needs.available_bytes.value_or(0))),
      needs.fitting_tokens() > 0 ? fmt::format("{} tokens would fit", needs.fitting_tokens())
                                 : std::string("no context would fit"));
}

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
  return Devices(std::move(devices));
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
  if (options.gpu_memory_bytes > 0 && can_split(planned.device->info(), options)) {
    needs.available_bytes = std::min(needs.available_bytes.value_or(options.gpu_memory_bytes), options.gpu_memory_bytes);
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

std::int32_t image_tokens(const EngineOptions& options) {
  return options.image_tokens > 0 ? options.image_tokens : default_image_tokens;
}

/// An image is computed whole, beside one token of each other sequence.
void make_room_for_images(EngineOptions& options, const VisionConfig& vision) {
  options.max_batch_tokens = std::max(options.max_batch_tokens, vision.max_tokens + options.max_sequences - 1);
  options.model.given_rows = true;
  options.model.spans = options.model.spans || vision.both_directions;
}

/// Opens the image encoder's file. An image's rows lie in the memory of one GPU, and no other rank waits for them.
void open_vision(PlannedModel& planned, const ModelConfig& text, EngineOptions& options) {
  try {
    if (names_several(options.device)) {
      throw Error(options.mmproj + ": a model that GPUs share reads no images");
    }
    auto file = std::make_unique<const GgufFile>(options.mmproj);
    make_room_for_images(options, VisionConfig::from_gguf(*file, text, image_tokens(options)));
    planned.vision_file = std::move(file);
  } catch (const Error& error) {
    if (!options.mmproj_is_found) {
      throw;
    }
    log_warning("images are not seen: {}", error.what());
  }
}

/// The encoder, on the model's device.
void plan_vision(PlannedModel& planned, const ModelConfig& text, const EngineOptions& options, bool small_weights) {
  planned.vision = VisionModel::plan(*planned.vision_file, text, *planned.registry, planned.device->info(), planned.threads,
                                     {.max_tokens = image_tokens(options),
                                      .max_rows = options.max_batch_tokens,
                                      .overlap = options.model.overlap,
                                      .small_weights = small_weights});
}

void count_vision(PlannedModel& planned) {
  if (planned.vision == nullptr) {
    return;
  }
  planned.memory.weight_bytes += encoder_weight_bytes(planned);
  planned.memory.workspace_bytes += static_cast<std::int64_t>(planned.vision->workspace_bytes());
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
  // The needs of a part alone are not quite those of the plan with all parts in their places.
  constexpr int most_attempts = 4;
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    ChosenPlacement chosen = choose_placement(needs, wishes);
    if (!chosen.placement.split()) {
      return;
    }
    model_options.placement = chosen.placement;
    plan();
    planned.host = std::make_unique<Device>(model_options.host_isa);
    planned.host_memory = host_memory_needs(*planned.model, planned.memory);
    planned.placement = PlannedPlacement{needs, std::move(chosen), why};
    planned.placement->chosen.bytes = {planned.memory.total_bytes(), planned.host_memory->total_bytes()};
    if (planned.memory.fits() || wishes.gpu_layers) {
      return;
    }
    needs.available.device -= planned.memory.total_bytes() - *planned.memory.available_bytes;
  }
}

}  // namespace

std::int64_t encoder_weight_bytes(const PlannedModel& planned) {
  if (planned.vision == nullptr) {
    return 0;
  }
  const std::size_t packed = planned.vision->packed_bytes();
  const bool on_gpu = planned.device->is_gpu();
  return static_cast<std::int64_t>(on_gpu ? packed : std::max<std::size_t>(packed, planned.vision_file->file_bytes()));
}

PlannedModel plan_model(const std::string& path, const EngineOptions& wanted, std::unique_ptr<Device> device) {
  check_options(wanted);
  PlannedModel planned;
  planned.file = std::make_unique<const GgufFile>(path);  // its errors name it
  const ModelConfig config = ModelConfig::from_gguf(*planned.file);
  EngineOptions options = wanted;
  if (!options.mmproj.empty()) {
    open_vision(planned, config, options);
  }
  planned.max_batch_tokens = options.max_batch_tokens;
  decide_mtp(options.drafts, *planned.file, config);
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
  model_options.max_sequences = options.max_sequences;
  const bool chooses = chooses_context(options, config);
  model_options.merge_launches = planned.merging.on;
  model_options.host_isa = isa_limit(options.isa);
  const auto plan = [&] {
    planned.model = naming_file(path, [&] {
      return Model::plan(*planned.file, *planned.registry, planned.device->info(), planned.threads, model_options);
    });
    if (planned.vision_file != nullptr) {
      plan_vision(planned, config, options, model_options.small_weights);
    }
    planned.memory = memory_needs(planned.file->file_bytes(), *planned.model, planned.devices(),
                                  cache_tokens(options, model_options.context_length),
                                  std::min(options.max_sequences, options.max_batch_tokens), step_tokens(options, config));
    count_processes(planned, options.model.processes);
    count_vision(planned);
    limit_memory(planned, options.placement);
  };
  const auto plan_with_context = [&] {
    model_options.context_length = chooses ? config.context_length : context_length(options, config);
    plan();
    if (chooses) {
      const std::int32_t chosen = fitting_context(planned.memory, planned.device->is_gpu(), options.fitting_contexts,
                                                  options.kv_tokens, config.context_length);
      if (std::exchange(model_options.context_length, chosen) != chosen) {
        plan();
      }
    }
    planned.context_length = model_options.context_length;
  };
  plan_with_context();
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
  const bool shared = options.model.ranks > 1 || options.model.processes != nullptr;
  if (!shared && can_split(planned.device->info(), options.placement) &&
      (options.placement.any() || !planned.memory.fits())) {
    place(planned, options, model_options, plan);
  }
  return planned;
}

std::int32_t step_tokens(const EngineOptions& options, const ModelConfig& config) {
  return config.encoder.is_encoder ? std::max(options.max_batch_tokens, context_length(options, config))
                                   : options.max_batch_tokens;
}

std::int64_t tokens_of_contexts(std::int64_t context, std::int32_t contexts, std::int32_t answers) {
  constexpr std::int64_t usual_tokens = 1024;
  return std::max(context * contexts, std::min(context, usual_tokens) * answers);
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
