#include "engine/plan_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "device/device_label.h"
#include "device/peers.h"
#include "engine/plan_model.h"
#include "ops/all_reduce.h"

namespace rocmforge {
namespace {

/// A row that goes from one GPU to the next: two streams wait for each other.
constexpr double hand_over_seconds = 10e-6;
/// What a sum over two GPUs takes with what products of parts of a matrix lose: measured with Llama 3 8B on two H200
/// (docs/scaling.md).
constexpr double sum_seconds = 10e-6;

}  // namespace

double split_seconds(const PlannedModel& planned, const EngineOptions& options) {
  int sums = 0;
  for (const PlannedOperation& operation : planned.model->plan()) {
    sums += operation.operation == AllReduce::name ? operation.times : 0;
  }
  const int hand_overs = planned.model->stage_ends().empty() ? 0 : planned.model->ranks();
  return static_cast<double>(planned.model->bytes_per_token()) /
             memory_bandwidth(options.ceilings_file, planned.device->info(), Side::device) +
         sum_seconds * sums + hand_over_seconds * hand_overs;
}

StageNeeds stage_needs(const PlannedModel& planned, const Placement& placement, const PlacementOptions& options) {
  const ModelParts& parts = planned.model->parts();
  const MemoryNeeds& memory = planned.memory;
  const auto on_device = [](Side side, std::size_t bytes) {
    return side == Side::device ? static_cast<std::int64_t>(bytes) : 0;
  };
  StageNeeds needs{.embedding = on_device(placement.embedding, parts.embedding.weights),
                   .output = on_device(placement.output, parts.output.weights),
                   .workspace = static_cast<std::int64_t>(planned.model->workspace_bytes())};
  for (std::size_t index = 0; index < parts.layers.size(); ++index) {
    const ModelParts::Layer& part = parts.layers[index];
    const Placement::Layer where = placement.layer(static_cast<int>(index));
    std::int64_t bytes = on_device(where.side, part.own.weights) + on_device(where.experts, part.experts.weights);
    if (where.side == Side::device) {
      bytes += sequence_bytes(part, planned.model->kv_groups(), memory);
    }
    needs.layers.push_back({bytes, part.keys_of});
  }
  constexpr std::int64_t plenty = std::numeric_limits<std::int32_t>::max();
  const Devices devices = planned.devices();
  for (std::size_t rank = 0; rank <= planned.further.size(); ++rank) {
    const auto of_device = devices.of_rank(rank).at(Side::device).memory();
    const std::int64_t limit = options.gpu_memory_bytes > 0 ? options.gpu_memory_bytes : plenty * plenty;
    needs.available.push_back(std::min(of_device ? of_device->free_bytes : limit, limit));
  }
  return needs;
}

void divide_layers(const PlannedModel& planned, const EngineOptions& options, ModelOptions& model_options,
                   const std::function<void()>& plan) {
  const std::string path = planned.file->path().string();
  StageNeeds needs = stage_needs(planned, model_options.placement, options.placement);
  // The needs of a layer alone are not quite those of a stage: a device that lacks memory counts as having less.
  constexpr int most_attempts = 4;
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    model_options.stage_ends = naming_file(path, [&] {
      return options.tensor_split.empty() ? choose_stages(needs) : stages_in_proportion(needs, options.tensor_split);
    });
    plan();
    bool lacks = false;
    for (std::size_t rank = 0; rank < planned.stage_memory.size(); ++rank) {
      if (const MemoryNeeds& own = planned.stage_memory[rank]; !own.fits()) {
        needs.available[rank] -= own.total_bytes() - *own.available_bytes;
        lacks = true;
      }
    }
    if (!lacks || !options.tensor_split.empty()) {
      return;
    }
  }
}

namespace {

/// "layers 0 to 15 on cuda:0, 16 to 31 on cuda:1"
std::string describe_stages(const PlannedModel& planned) {
  std::string text;
  std::int32_t first = 0;
  const std::vector<std::int32_t> ends = planned.model->stage_ends();
  const Devices devices = planned.devices();
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    text += fmt::format("{}{} to {} on {}", rank == 0 ? "layers " : ", ", first, ends[rank] - 1,
                        device_label(devices.of_rank(rank).at(Side::device).info()));
    first = ends[rank];
  }
  return text;
}

void check_layers(const EngineOptions& options, const ModelConfig& config, std::size_t devices) {
  if (config.encoder.is_encoder) {
    throw Error("the layers of an encoder are on one device");
  }
  if (!options.tensor_split.empty() && options.tensor_split.size() != devices) {
    throw Error(
        fmt::format("--tensor-split has {} numbers, --device names {} devices", options.tensor_split.size(), devices));
  }
}

/// Why the devices could not share each layer, or "".
std::string no_tensor_reason(const PlannedModel& planned) {
  std::vector<Device*> devices{planned.device.get()};
  std::ranges::for_each(planned.further, [&](const auto& device) { devices.push_back(device.get()); });
  return enable_peer_access(devices);
}

}  // namespace

std::string choose_split(const PlannedModel& planned, const EngineOptions& options, const ModelConfig& config,
                         const std::function<void(DeviceSplit)>& plan) {
  const auto by_layers = [&](std::string why) {
    check_layers(options, config, planned.further.size() + 1);
    plan(DeviceSplit::layer);
    return why;
  };
  if (options.split == DeviceSplit::tensor || options.model.ranks > 1) {
    plan(DeviceSplit::tensor);
    return {};
  }
  if (options.split == DeviceSplit::layer || !options.tensor_split.empty() || options.placement.any()) {
    return by_layers("as asked for");
  }
  if (const std::string reason = no_tensor_reason(planned); !reason.empty()) {
    return by_layers("as " + reason);
  }
  std::optional<double> tensor;
  std::string why = "as there is no memory for a part of each layer on each";
  try {
    plan(DeviceSplit::tensor);
    if (planned.lacking() == nullptr) {
      tensor = split_seconds(planned, options);
    }
  } catch (const Error& error) {
    why = fmt::format("as a part of each layer on each can't be: {}", error.what());
  }
  if (tensor && config.encoder.is_encoder) {
    return "as an encoder is not divided otherwise";
  }
  by_layers(why);
  if (!tensor) {
    return why;
  }
  const double layers = split_seconds(planned, options);
  if (planned.lacking() == nullptr && layers <= *tensor) {
    return fmt::format("as a part of each layer on each takes {:.2f} ms", *tensor * 1e3);
  }
  why = planned.lacking() != nullptr ? "as whole layers don't fit"
                                     : fmt::format("as whole layers take {:.2f} ms", layers * 1e3);
  plan(DeviceSplit::tensor);
  return why;
}

std::string describe_split(const PlannedModel& planned, const EngineOptions& options, const std::string& why) {
  const std::string how = planned.model->stage_ends().empty()
                              ? fmt::format("a part of each layer on each of {} devices", planned.model->ranks())
                              : describe_stages(planned);
  return fmt::format("{}, {}: at least {:.2f} ms a token", how, why, split_seconds(planned, options) * 1e3);
}

}  // namespace rocmforge
