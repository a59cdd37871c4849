#include "models/layer_pipeline.h"

#include <algorithm>

#include "base/log.h"
#include "device/peers.h"

namespace rocmforge {
namespace {

template <class Count>
std::size_t sum_over(const std::vector<std::unique_ptr<Transformer>>& stages, const Count& count) {
  std::size_t sum = 0;
  std::ranges::for_each(stages, [&](const auto& stage) { sum += count(*stage); });
  return sum;
}

/// Adds the planes of a stage to those of all.
void add_planes(KvGroups& groups, const KvGroups& of_stage) {
  groups.resize(std::max(groups.size(), of_stage.size()));
  for (std::size_t group = 0; group < of_stage.size(); ++group) {
    const KvGroup& from = of_stage[group];
    KvGroup& to = groups[group];
    to.window = from.window;
    to.planes.insert(to.planes.end(), from.planes.begin(), from.planes.end());
    to.sides.insert(to.sides.end(), from.sides.begin(), from.sides.end());
  }
}

}  // namespace

LayerPipeline::LayerPipeline(const ModelConfig& config, const GgufFile& file, const KernelRegistry& registry,
                             const DeviceInfo& device, int num_threads, const ModelOptions& options)
    : ends_(options.stage_ends), progress_(options.progress) {
  check(!ends_.empty() && ends_.back() == config.layers, "the stages have all layers of the model");
  ModelOptions of_stage = options;
  // With fewer the first device would wait for the host, and the host for the last one.
  of_stage.pending_steps = std::max(options.pending_steps, static_cast<std::int32_t>(ends_.size()));
  if (progress_) {
    of_stage.progress = [this](double done) { progress_(loaded_ + done * loading_); };
  }
  std::int32_t first = 0;
  for (const std::int32_t end : ends_) {
    const Stage stage{first, end, stages_.empty() ? nullptr : stages_.back().get()};
    stages_.push_back(std::make_unique<Transformer>(config, file, registry, device, num_threads, of_stage, stage));
    first = end;
  }
  join_plans();
}

void LayerPipeline::join_plans() {
  for (const auto& stage : stages_) {
    add_planes(kv_groups_, stage->kv_groups());
    plan_.insert(plan_.end(), stage->plan().begin(), stage->plan().end());
  }
  const std::int32_t block_tokens = block_tokens_of(kv_groups_);
  set_block_tokens(kv_groups_, block_tokens);
  parts_.embedding = stages_.front()->parts().embedding;
  parts_.output = last().parts().output;
  parts_.layers.resize(static_cast<std::size_t>(ends_.back()));
  std::size_t layer = 0;
  KvGroups before(kv_groups_.size());  // of the stages so far: planes count from the first of them
  for (std::size_t rank = 0; rank < stages_.size(); ++rank) {
    stages_[rank]->set_block_tokens(block_tokens);
    for (; layer < static_cast<std::size_t>(ends_[rank]); ++layer) {
      ModelParts::Layer& part = parts_.layers[layer] = stages_[rank]->parts().layers[layer];
      if (part.plane) {
        part.plane->plane += static_cast<std::int32_t>(before[static_cast<std::size_t>(part.plane->group)].planes.size());
      }
    }
    add_planes(before, stages_[rank]->kv_groups());
  }
}

void LayerPipeline::load(const Devices& devices, ThreadPool& pool) {
  std::vector<Device*> each;
  for (std::size_t rank = 0; rank < stages_.size(); ++rank) {
    each.push_back(&devices.of_rank(rank).at(Side::device));
  }
  const std::string no_peers = enable_peer_access(each);
  if (!no_peers.empty()) {
    log_warning("rows between layers of two GPUs go through the host's memory and take longer: {}", no_peers);
  }
  load(devices, pool, no_peers.empty() ? StepLink::Route::peer : StepLink::Route::host);
}

void LayerPipeline::load(const Devices& devices, ThreadPool& pool, StepLink::Route route) {
  connect(devices, route);
  const double all = static_cast<double>(std::max<std::size_t>(device_weight_bytes() + host_weight_bytes(), 1));
  for (std::size_t rank = 0; rank < stages_.size(); ++rank) {
    Transformer& stage = *stages_[rank];
    loading_ = static_cast<double>(stage.device_weight_bytes() + stage.host_weight_bytes()) / all;
    stage.load(devices.of_rank(rank), pool);
    loaded_ += loading_;
  }
}

void LayerPipeline::connect(const Devices& devices, StepLink::Route route) {
  check(links_.empty(), "a model is loaded once");
  const auto device = [&](std::size_t rank) -> Device& { return devices.of_rank(rank).at(Side::device); };
  std::vector<StageLinks> ends(stages_.size());
  for (std::size_t rank = 1; rank < stages_.size(); ++rank) {
    links_.push_back(std::make_unique<StepLink>(device(rank - 1), device(rank), stages_[rank]->handed_bytes(), route));
    ends[rank - 1].rows_out = ends[rank].rows_in = links_.back().get();
  }
  if (parts_on_host()) {  // whose threads wait for each step anyway
    ends.front().last = &last();
  } else {
    links_.push_back(std::make_unique<StepLink>(device(stages_.size() - 1), device(0), last().drawn_bytes(), route));
    ends.back().drawn_out = ends.front().drawn_in = links_.back().get();
  }
  for (std::size_t rank = 0; rank < stages_.size(); ++rank) {
    stages_[rank]->connect(ends[rank]);
  }
}

std::vector<RankBytes> LayerPipeline::rank_bytes() const {
  std::vector<RankBytes> bytes;
  for (std::size_t rank = 0; rank < stages_.size(); ++rank) {
    const Transformer& stage = *stages_[rank];
    const std::size_t box = rank > 0 ? stage.handed_bytes() : parts_on_host() ? 0 : stage.drawn_bytes();
    bytes.push_back({.weights = stage.device_weight_bytes(), .workspace = stage.workspace_bytes() + box});
  }
  return bytes;
}

bool LayerPipeline::parts_on_host() const {
  return std::ranges::any_of(stages_, [](const auto& stage) { return stage->parts_on_host(); });
}

std::size_t LayerPipeline::state_bytes() const {
  return sum_over(stages_, [](const Transformer& stage) { return stage.state_bytes(); });
}

std::size_t LayerPipeline::host_state_bytes() const {
  return sum_over(stages_, [](const Transformer& stage) { return stage.host_state_bytes(); });
}

std::size_t LayerPipeline::packed_bytes() const {
  return sum_over(stages_, [](const Transformer& stage) { return stage.packed_bytes(); });
}

std::size_t LayerPipeline::workspace_bytes() const {
  std::size_t sum = 0;
  std::ranges::for_each(rank_bytes(), [&](const RankBytes& rank) { sum += rank.workspace; });
  return sum;
}

std::size_t LayerPipeline::bytes_per_token() const {
  return sum_over(stages_, [](const Transformer& stage) { return stage.bytes_per_token(); });
}

std::size_t LayerPipeline::device_weight_bytes() const {
  return sum_over(stages_, [](const Transformer& stage) { return stage.device_weight_bytes(); });
}

std::size_t LayerPipeline::host_weight_bytes() const {
  return sum_over(stages_, [](const Transformer& stage) { return stage.host_weight_bytes(); });
}

std::size_t LayerPipeline::host_workspace_bytes() const {
  return sum_over(stages_, [](const Transformer& stage) { return stage.host_workspace_bytes(); });
}

void LayerPipeline::wait() {
  for (const auto& stage : stages_) {
    stage->wait();
  }
}

void LayerPipeline::load_adapter(std::int32_t id, std::shared_ptr<const LoraFile> file) {
  check_adapter(*file, config(), [this](std::string_view base) {
    return std::ranges::any_of(stages_, [base](const auto& stage) { return stage->takes_adapter(base); });
  });
  try {
    for (const auto& stage : stages_) {
      stage->load_adapter(id, file);
    }
  } catch (...) {
    unload_adapter(id);
    throw;
  }
}

void LayerPipeline::unload_adapter(std::int32_t id) {
  std::ranges::for_each(stages_, [id](const auto& stage) { stage->unload_adapter(id); });
}

void LayerPipeline::forward(const BatchPlan& batch, SequenceMemory& memory) {
  for (std::size_t rank = 0; rank < stages_.size(); ++rank) {
    stages_[rank]->forward(batch, memory.of_rank(rank));
  }
}

void LayerPipeline::forward_mtp(std::int32_t block, const BatchPlan& batch, SequenceMemory& memory) {
  last().forward_mtp(block, batch, memory.of_rank(stages_.size() - 1));
}

std::vector<OperationTime> LayerPipeline::time_operations(const BatchPlan& batch, SequenceMemory& memory) {
  std::vector<OperationTime> times;
  double all = 0.0;
  for (std::size_t rank = 0; rank < stages_.size(); ++rank) {
    for (OperationTime& time : stages_[rank]->time_operations(batch, memory.of_rank(rank))) {
      const auto known = std::ranges::find(times, time.kind, &OperationTime::kind);
      if (time.kind.empty()) {
        all += time.seconds;
      } else if (known != times.end()) {
        known->seconds += time.seconds;
      } else {
        times.push_back(std::move(time));
      }
    }
  }
  times.push_back({"", all});
  return times;
}

}  // namespace rocmforge
