#include "engine/place_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "device/ceilings.h"
#include "engine/plan_model.h"
#include "models/plan/placement_overrides.h"

namespace rocmforge {
namespace {

std::int64_t bytes(std::size_t count) { return static_cast<std::int64_t>(count); }

PlacementNeeds::Part part(const ModelParts::Part& device, const ModelParts::Part& host) {
  return {.weights = {bytes(device.weights), bytes(host.weights)}, .read = {bytes(device.read), bytes(host.read)}};
}

std::int64_t weights_of(const ModelParts& parts) {
  std::size_t total = parts.embedding.weights + parts.output.weights;
  for (const ModelParts::Layer& layer : parts.layers) {
    total += layer.own.weights + layer.experts.weights;
  }
  return bytes(total);
}

}  // namespace

double memory_bandwidth(const std::filesystem::path& ceilings, const DeviceInfo& device, Side side) {
  // For devices whose memory was never measured: those of usual cards and hosts. Choices depend on their ratio alone.
  constexpr double usual_device_bandwidth = 500e9;
  constexpr double usual_host_bandwidth = 40e9;
  const std::optional<Ceilings> measured =
      ceilings.empty() ? std::optional<Ceilings>() : CeilingCache(ceilings).find(device);
  return measured && measured->read_bytes_per_second > 0.0 ? measured->read_bytes_per_second
         : side == Side::device                            ? usual_device_bandwidth
                                                           : usual_host_bandwidth;
}

bool can_split(const DeviceInfo& device, const PlacementOptions& options) {
  return device.is_gpu() ? !device.integrated : options.host_beside_cpu;
}

PlacementWishes placement_wishes(const PlacementOptions& options, const GgufFile& file, std::int32_t layers) {
  PlacementWishes wishes{.gpu_layers = options.gpu_layers, .cpu_experts = options.cpu_experts};
  add_overrides(file, layers, options.overrides, wishes);
  return wishes;
}

PlacementNeeds placement_needs(const PlannedModel& planned, const ModelOptions& options, const PlacementOptions& placement,
                               const std::filesystem::path& ceilings) {
  ModelOptions host_options = options;
  host_options.attention.clear();
  host_options.matmul.clear();
  host_options.placement = {};
  host_options.stage_ends.clear();
  const DeviceInfo cpu = cpu_device_info(options.host_isa);
  const std::unique_ptr<Model> host = Model::plan(*planned.file, *planned.registry, cpu, planned.threads, host_options);
  const Model& device = *planned.model;
  const ModelParts& here = device.parts();
  const ModelParts& there = host->parts();
  PlacementNeeds needs{.embedding = part(here.embedding, there.embedding), .output = part(here.output, there.output)};
  for (std::size_t i = 0; i < here.layers.size(); ++i) {
    const std::int64_t memory = sequence_bytes(here.layers[i], device.kv_groups(), planned.memory);
    needs.layers.push_back({.own = part(here.layers[i].own, there.layers[i].own),
                            .experts = part(here.layers[i].experts, there.layers[i].experts),
                            .memory = {memory, memory},
                            .keys_of = here.layers[i].keys_of});
  }
  needs.workspace = {planned.memory.workspace_bytes, bytes(host->workspace_bytes())};
  // What no layer has: blocks of multi-token prediction.
  needs.workspace.device += std::max<std::int64_t>(0, planned.memory.weight_bytes - weights_of(here));
  const std::int64_t unknown = std::numeric_limits<std::int64_t>::max() / 64;  // of some devices together
  needs.available = {planned.memory.available_bytes.value_or(unknown) - placement.margin_bytes,
                     available_host_bytes().value_or(unknown)};
  if (!planned.stage_memory.empty()) {  // all devices together, each with a workspace of its own
    needs.available.device = needs.workspace.device = 0;
    for (const MemoryNeeds& stage : planned.stage_memory) {
      needs.available.device += stage.available_bytes.value_or(unknown) - placement.margin_bytes;
      needs.workspace.device += stage.workspace_bytes;
    }
  }
  needs.device_bytes_per_second = memory_bandwidth(ceilings, planned.device->info(), Side::device);
  needs.host_bytes_per_second = memory_bandwidth(ceilings, cpu, Side::host);
  needs.crossing_seconds = placement.crossing_seconds;
  return needs;
}

std::string PlannedPlacement::describe() const {
  const auto gib = [](std::int64_t count) { return static_cast<double>(count) / (1024.0 * 1024.0 * 1024.0); };
  return fmt::format("{}, {}: {:.2f} GiB on the GPU, {:.2f} in host memory, at least {:.2f} ms a token",
                     chosen.describe(needs), why, gib(chosen.bytes.device), gib(chosen.bytes.host), chosen.seconds * 1e3);
}

}  // namespace rocmforge
