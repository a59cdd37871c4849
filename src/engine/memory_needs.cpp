#include "engine/memory_needs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "base/available_memory.h"
#include "device/device_label.h"
#include "engine/engine.h"
#include "memory/kv_group.h"
#include "schedule/pages/sequence_state.h"
#include "schedule/pages/window_group.h"

namespace rocmforge {
namespace {

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
  const bool shares = !device.is_gpu() && model.stage_ends().empty();
  const std::int32_t ranks = shares ? model.ranks() : 1;  // that share its memory
  MemoryNeeds needs;
  needs.kv_tokens = kv_tokens;
  count_pages(needs, model, max_sequences, max_batch_tokens, ranks);
  if (model.state_bytes() + model.host_state_bytes() > 0) {
    needs.state_slots = SequenceState::own_slots * max_sequences + std::max(max_sequences, least_kept_states);
    needs.slot_bytes = ranks * static_cast<std::int64_t>(model.state_bytes());
  }
  if (device.is_gpu() && model.ranks() > 1 && model.stage_ends().empty()) {
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

std::vector<MemoryNeeds> stage_memory_needs(const Model& model, const Devices& devices, const MemoryNeeds& of_all) {
  std::vector<MemoryNeeds> stages;
  for (const RankBytes& rank : model.rank_bytes()) {
    const Model& stage = model.of_rank(stages.size());
    Device& device = devices.of_rank(stages.size()).at(Side::device);
    MemoryNeeds& needs = stages.emplace_back(of_all);
    needs.where = device_label(device.info()) + "'s ";
    count_page_bytes(needs, stage, Side::device, 1);
    needs.slot_bytes = static_cast<std::int64_t>(stage.state_bytes());
    needs.weight_bytes = static_cast<std::int64_t>(rank.weights);
    needs.workspace_bytes = static_cast<std::int64_t>(rank.workspace);
    const auto memory = device.memory();
    needs.available_bytes = memory ? std::optional(memory->free_bytes) : available_memory_bytes();
  }
  return stages;
}

const MemoryNeeds& tightest(const std::vector<MemoryNeeds>& needs) {
  return *std::ranges::min_element(
      needs, {}, [](const MemoryNeeds& each) { return each.available_bytes.value_or(0) - each.total_bytes(); });
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

std::int64_t sequence_bytes(const ModelParts::Layer& layer, const KvGroups& groups, const MemoryNeeds& needs) {
  std::int64_t total = static_cast<std::int64_t>(layer.state) * needs.state_slots;
  if (layer.plane) {
    const auto group = static_cast<std::size_t>(layer.plane->group);
    const KvLayout& plane = groups.at(group).planes.at(static_cast<std::size_t>(layer.plane->plane));
    total += static_cast<std::int64_t>(plane.block_bytes()) * needs.blocks.at(group);
  }
  return total;
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

std::int64_t tokens_of_contexts(std::int64_t context, std::int32_t contexts, std::int32_t answers) {
  constexpr std::int64_t usual_tokens = 1024;
  return std::max(context * contexts, std::min(context, usual_tokens) * answers);
}

}  // namespace rocmforge
