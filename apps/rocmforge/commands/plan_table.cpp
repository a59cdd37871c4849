#include "commands/plan_table.h"

#include <fmt/format.h>

#include <cstdio>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/json.h"
#include "bench/kernel_bench.h"
#include "bench/measure.h"
#include "device/device_label.h"
#include "terminal/text.h"

namespace rocmforge::app {
namespace {

/// Equal operations of several layers.
struct PlanGroup {
  std::string operation;  ///< "blk.*.attn_qkv"
  const PlannedOperation* first = nullptr;
  int times = 0;  ///< in a step
  std::size_t weight_bytes = 0;
  std::size_t activation_bytes = 0;
  std::size_t kv_bytes_per_position = 0;

  [[nodiscard]] std::size_t bytes() const { return weight_bytes + activation_bytes; }
};

/// "blk.*.attn_qkv" for the operations of all layers.
std::string without_layer(const std::string& operation) {
  const std::string_view kind = operation_kind(operation);
  return kind == operation ? operation : fmt::format("blk.*.{}", kind);
}

std::vector<PlanGroup> group(const std::vector<PlannedOperation>& plan) {
  std::vector<PlanGroup> groups;
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::int64_t>, std::size_t> index;
  for (const PlannedOperation& operation : plan) {
    const std::string name = without_layer(operation.operation);
    const auto [found, added] =
        index.try_emplace({name, operation.spec, operation.kernel, operation.part_of, operation.part_tokens}, groups.size());
    if (added) {
      groups.push_back({.operation = name, .first = &operation});
    }
    PlanGroup& here = groups[found->second];
    const auto times = static_cast<std::size_t>(operation.times);
    here.times += operation.times;
    here.weight_bytes += times * operation.weight_bytes;
    here.activation_bytes += times * operation.activation_bytes;
    here.kv_bytes_per_position += times * operation.kv_bytes_per_position;
  }
  return groups;
}

/// "gpu". If the call of another operation includes this one: "in attn_qkv", or "gpu; to 8 tokens in attn_qkv" if it does so
/// only in small steps.
std::string kernel_text(const PlannedOperation& operation) {
  if (operation.part_of.empty()) {
    return operation.kernel;
  }
  return operation.part_tokens == std::numeric_limits<std::int64_t>::max()
             ? fmt::format("in {}", operation.part_of)
             : fmt::format("{}; to {} tokens in {}", operation.kernel, operation.part_tokens, operation.part_of);
}

}  // namespace

std::string attention_kernels(const Model& model) {
  std::string names;
  for (const PlannedOperation& operation : model.plan()) {
    if (operation.operation == Attention::name &&
        (" + " + names + " ").find(" " + operation.kernel + " ") == std::string::npos) {
      names += (names.empty() ? "" : " + ") + operation.kernel;
    }
  }
  return names;
}

std::optional<double> read_ceiling(const DeviceInfo& device, int threads) {
  if (!device.is_gpu()) {
    return read_bandwidth(threads);
  }
  const auto ceilings = ceiling_cache().find(device);
  return ceilings ? std::optional(ceilings->read_bytes_per_second) : std::nullopt;
}

namespace {

std::string side_name(Side side, const PlannedModel& planned) {
  return std::string(name(side == Side::host ? DeviceKind::cpu : planned.device->info().kind));
}

std::string label_of_rank(const PlannedModel& planned, std::size_t rank) {
  return device_label(planned.devices().of_rank(rank).at(Side::device).info());
}

/// A part of a model whose layers are divided.
struct StagePart {
  std::string name;
  std::size_t rank;
  std::size_t weight_bytes;
  std::int64_t memory_bytes;  ///< K, V and states
};

std::vector<StagePart> stage_parts(const PlannedModel& planned) {
  const ModelParts& parts = planned.model->parts();
  const std::vector<std::int32_t> ends = planned.model->stage_ends();
  std::vector<StagePart> all{{"embedding", 0, parts.embedding.weights, 0}};
  std::size_t rank = 0;
  for (std::size_t i = 0; i < parts.layers.size(); ++i) {
    rank += i == static_cast<std::size_t>(ends[rank]) ? 1 : 0;
    const ModelParts::Layer& layer = parts.layers[i];
    all.push_back({fmt::format("layer {}", i), rank, layer.own.weights + layer.experts.weights,
                   sequence_bytes(layer, planned.model->kv_groups(), planned.memory)});
  }
  all.push_back({"output", ends.size() - 1, parts.output.weights, 0});
  return all;
}

/// The parts in the order of the model: name, side and part.
struct PlacedPart {
  std::string name;
  Side side;
  ModelParts::Part bytes;
};

std::vector<PlacedPart> placed_parts(const PlannedModel& planned) {
  const ModelParts& parts = planned.model->parts();
  const Placement& placement = planned.placement->chosen.placement;
  std::vector<PlacedPart> placed{{"embedding", placement.embedding, parts.embedding}};
  for (std::size_t i = 0; i < parts.layers.size(); ++i) {
    const Placement::Layer& layer = placement.layers[i];
    placed.push_back({fmt::format("layer {}", i), layer.side, parts.layers[i].own});
    if (parts.layers[i].experts.weights > 0) {
      placed.push_back({fmt::format("experts {}", i), layer.experts, parts.layers[i].experts});
    }
  }
  placed.push_back({"output", placement.output, parts.output});
  return placed;
}

std::int64_t kv_bytes_of_rank(const PlannedModel& planned) {
  const bool of_one = planned.device->is_gpu();  // whose memory no other rank shares
  return planned.memory.kv_bytes_per_token / (of_one ? 1 : planned.model->ranks());
}

double least_seconds(const PlacedPart& part, const PlacementNeeds& needs) {
  return static_cast<double>(part.bytes.read) /
         (part.side == Side::host ? needs.host_bytes_per_second : needs.device_bytes_per_second);
}

}  // namespace

void print_placement(const PlannedModel& planned) {
  if (!planned.placement) {
    return;
  }
  const PlacementNeeds& needs = planned.placement->needs;
  fmt::print("\nplacement: {}\n", planned.placement->describe());
  Table table({"part", "device", ">weights", ">read a token", ">us at least"});
  for (const PlacedPart& part : placed_parts(planned)) {
    table.add({part.name, side_name(part.side, planned), human_bytes(part.bytes.weights), human_bytes(part.bytes.read),
               fmt::format("{:.1f}", least_seconds(part, needs) * 1e6)});
  }
  table.print(stdout);
  fmt::print("\nus at least: bytes by {:.0f} GB/s of the GPU and {:.0f} of the CPU; {:.0f} us for each crossing\n",
             needs.device_bytes_per_second / 1e9, needs.host_bytes_per_second / 1e9, needs.crossing_seconds * 1e6);
}

void print_split(const PlannedModel& planned) {
  if (!planned.split.empty()) {
    fmt::print("\nsplit: {}\n", planned.split);
  }
  if (planned.stage_memory.empty()) {
    return;
  }
  Table table({"part", "device", ">weights", ">K, V and states"});
  for (const StagePart& part : stage_parts(planned)) {
    table.add({part.name, label_of_rank(planned, part.rank), human_bytes(part.weight_bytes),
               part.memory_bytes > 0 ? human_bytes(static_cast<std::uint64_t>(part.memory_bytes)) : ""});
  }
  table.print(stdout);
  fmt::print("\n");
  Table devices({"device", ">weights", ">workspace", ">in all", ">available"});
  for (std::size_t rank = 0; rank < planned.stage_memory.size(); ++rank) {
    const MemoryNeeds& needs = planned.stage_memory[rank];
    const auto human = [](std::int64_t bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); };
    devices.add({label_of_rank(planned, rank), human(needs.weight_bytes), human(needs.workspace_bytes),
                 human(needs.total_bytes()), needs.available_bytes ? human(*needs.available_bytes) : "unknown"});
  }
  devices.print(stdout);
}

nlohmann::ordered_json split_json(const PlannedModel& planned) {
  nlohmann::ordered_json out = {{"summary", planned.split}};
  if (planned.stage_memory.empty()) {
    return out;
  }
  auto parts = nlohmann::ordered_json::array();
  for (const StagePart& part : stage_parts(planned)) {
    parts.push_back({{"part", part.name},
                     {"device", label_of_rank(planned, part.rank)},
                     {"weight_bytes", part.weight_bytes},
                     {"memory_bytes", part.memory_bytes}});
  }
  auto devices = nlohmann::ordered_json::array();
  for (std::size_t rank = 0; rank < planned.stage_memory.size(); ++rank) {
    const MemoryNeeds& needs = planned.stage_memory[rank];
    devices.push_back({{"device", label_of_rank(planned, rank)},
                       {"weight_bytes", needs.weight_bytes},
                       {"workspace_bytes", needs.workspace_bytes},
                       {"total_bytes", needs.total_bytes()}});
  }
  out["devices"] = devices;
  out["parts"] = parts;
  return out;
}

void print_ranks(const PlannedModel& planned) {
  const std::vector<RankBytes> ranks = planned.model->rank_bytes();
  if (ranks.empty() || !planned.stage_memory.empty()) {
    return;
  }
  fmt::print("\nranks\n");
  Table table({"rank", ">weights", ">workspace", ">KV per 1000 tokens"});
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    table.add({fmt::format("{}", rank), human_bytes(ranks[rank].weights), human_bytes(ranks[rank].workspace),
               human_bytes(1000 * static_cast<std::uint64_t>(kv_bytes_of_rank(planned)))});
  }
  table.print(stdout);
}

nlohmann::ordered_json ranks_json(const PlannedModel& planned) {
  auto out = nlohmann::ordered_json::array();
  for (const RankBytes& rank : planned.model->rank_bytes()) {
    out.push_back({{"weight_bytes", rank.weights},
                   {"workspace_bytes", rank.workspace},
                   {"kv_bytes_per_token", kv_bytes_of_rank(planned)}});
  }
  return out;
}

nlohmann::ordered_json placement_json(const PlannedModel& planned) {
  auto parts = nlohmann::ordered_json::array();
  for (const PlacedPart& part : placed_parts(planned)) {
    parts.push_back({{"part", part.name},
                     {"device", side_name(part.side, planned)},
                     {"weight_bytes", part.bytes.weights},
                     {"read_bytes", part.bytes.read},
                     {"seconds", least_seconds(part, planned.placement->needs)}});
  }
  return {{"summary", planned.placement->describe()},
          {"seconds", planned.placement->chosen.seconds},
          {"gpu_bytes", planned.placement->chosen.bytes.device},
          {"host_bytes", planned.placement->chosen.bytes.host},
          {"parts", parts}};
}

void print_plan(const PlannedModel& planned, std::optional<double> bytes_per_second) {
  const Model& model = *planned.model;
  const DeviceInfo& device = planned.device->info();
  fmt::print("\nplan: one token decoded on {}, attention {}\n", device.name, attention_kernels(model));
  std::vector<std::string> headers = {"operation", ">times", "kernel", ">weights", ">activations", ">KV a position"};
  if (bytes_per_second) {
    headers.emplace_back(">us at least");
  }
  headers.emplace_back("what");
  Table table(headers);
  const std::vector<PlanGroup> groups = group(model.plan());
  const auto shown = [](std::size_t bytes) { return bytes > 0 ? human_bytes(bytes) : std::string(); };
  for (const PlanGroup& line : groups) {
    std::vector<std::string> row = {
        line.operation,           fmt::format("{}", line.times), kernel_text(*line.first),
        shown(line.weight_bytes), shown(line.activation_bytes),  shown(line.kv_bytes_per_position)};
    if (bytes_per_second) {
      row.push_back(fmt::format("{:.2f}", static_cast<double>(line.bytes()) / *bytes_per_second * 1e6));
    }
    row.push_back(line.first->spec);
    table.add(std::move(row));
  }
  table.print(stdout);
  if (bytes_per_second) {
    fmt::print("\nus at least: bytes over the {:.1f} GB/s that the device was measured to read, no context\n",
               *bytes_per_second / 1e9);
  } else {
    fmt::print("\nno times: the memory of this device was never measured (rocmforge bench matmul does)\n");
  }
  fmt::print("\nnot chosen, and why\n");
  for (const PlanGroup& line : groups) {
    std::vector<std::string> reasons;
    for (const Refusal& refusal : line.first->refusals) {
      reasons.push_back(fmt::format("{} ({})", refusal.kernel, refusal.reason));
    }
    fmt::print("  {}: {}\n", line.operation, fmt::join(reasons, ", "));
  }
  if (device.is_gpu()) {
    fmt::print("\nmerged launches of products of one token: {} ({})\n", planned.merging.on ? "on" : "off",
               planned.merging.why);
    if (planned.product_groups != 1.0) {
      fmt::print("products of one token: {:g} work-groups a unit, which the saved check found fastest\n",
                 planned.product_groups);
    }
  }
  fmt::print("\nweights read per token {}, {} {}, workspace {}\n", human_bytes(model.bytes_per_token()),
             device.is_gpu() ? "copies on the device" : "repacked copies", human_bytes(model.packed_bytes()),
             human_bytes(model.workspace_bytes()));
}

namespace {

nlohmann::ordered_json operations_json(const std::vector<PlannedOperation>& plan, std::optional<double> bytes_per_second) {
  auto operations = nlohmann::ordered_json::array();
  for (const PlannedOperation& operation : plan) {
    auto refusals = nlohmann::ordered_json::array();
    for (const Refusal& refusal : operation.refusals) {
      refusals.push_back({{"kernel", refusal.kernel}, {"reason", refusal.reason}});
    }
    const std::size_t bytes = operation.weight_bytes + operation.activation_bytes;
    operations.push_back({{"operation", operation.operation},
                          {"spec", operation.spec},
                          {"kernel", operation.kernel},
                          {"times", operation.times},
                          {"weight_bytes", operation.weight_bytes},
                          {"activation_bytes", operation.activation_bytes},
                          {"kv_bytes_per_position", operation.kv_bytes_per_position}});
    if (bytes_per_second) {
      operations.back()["seconds_at_least"] = static_cast<double>(bytes) / *bytes_per_second;
    }
    operations.back()["refusals"] = refusals;
  }
  return operations;
}

/// `head`: what it takes.
void print_encoder(const PlannedModel& planned, const MediaEncoder& encoder, const std::string& head) {
  fmt::print("\n{}, weights {}, workspace {}\n", head,
             human_bytes(static_cast<std::uint64_t>(encoder_weight_bytes(planned))), human_bytes(encoder.workspace_bytes()));
  Table table({"operation", ">times", "kernel", ">weights", "what"});
  for (const PlanGroup& line : group(encoder.plan())) {
    table.add({line.operation, fmt::format("{}", line.times), kernel_text(*line.first),
               line.weight_bytes > 0 ? human_bytes(line.weight_bytes) : "", line.first->spec});
  }
  table.print(stdout);
}

nlohmann::ordered_json encoder_json(const PlannedModel& planned, const MediaEncoder& encoder, std::int32_t max_tokens) {
  return {{"path", planned.mmproj_file->path().string()},
          {"max_tokens", max_tokens},
          {"weight_bytes", encoder_weight_bytes(planned)},
          {"workspace_bytes", encoder.workspace_bytes()},
          {"operations", operations_json(encoder.plan(), std::nullopt)}};
}

}  // namespace

void print_encoders(const PlannedModel& planned) {
  if (planned.vision != nullptr) {
    print_encoder(planned, *planned.vision,
                  fmt::format("image encoder: {}, images of up to {} tokens", planned.mmproj_file->path().string(),
                              planned.vision->config().max_tokens));
  }
  if (planned.audio != nullptr) {
    print_encoder(
        planned, *planned.audio,
        fmt::format("audio encoder: {}, pieces of {:g} s, of up to {} tokens", planned.mmproj_file->path().string(),
                    planned.audio->config().frames() / 100.0, planned.audio->config().max_rows()));
  }
}

void add_encoders(const PlannedModel& planned, nlohmann::ordered_json& out) {
  if (planned.vision != nullptr) {
    out["image_encoder"] = encoder_json(planned, *planned.vision, planned.vision->config().max_tokens);
  }
  if (planned.audio != nullptr) {
    out["audio_encoder"] = encoder_json(planned, *planned.audio, planned.audio->config().max_rows());
  }
}

nlohmann::ordered_json plan_json(const PlannedModel& planned, std::optional<double> bytes_per_second) {
  const Model& model = *planned.model;
  const nlohmann::ordered_json operations = operations_json(model.plan(), bytes_per_second);
  return {{"attention", attention_kernels(model)},
          {"merged_launches", {{"on", planned.merging.on}, {"why", planned.merging.why}}},
          {"product_groups", planned.product_groups},
          {"operations", operations},
          {"weights_read_per_token_bytes", model.bytes_per_token()},
          {"repacked_bytes", model.packed_bytes()},
          {"workspace_bytes", model.workspace_bytes()}};
}

}  // namespace rocmforge::app
