#include "models/tensor_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "models/step/device_ranks.h"
#include "models/step/thread_communicator.h"

namespace rocmforge {
namespace {

template <class Count>
std::size_t sum_of(const std::vector<std::unique_ptr<Transformer>>& models, const Count& count) {
  std::size_t sum = 0;
  std::ranges::for_each(models, [&](const auto& model) { sum += count(*model); });
  return sum;
}

/// All threads in all, as equally as that can be, and at least one for each rank.
int threads_of_rank(int threads, std::int32_t rank, std::int32_t ranks) {
  return std::max(1, threads * (rank + 1) / ranks - threads * rank / ranks);
}

}  // namespace

TensorParallel::TensorParallel(const ModelConfig& config, const GgufFile& file, const KernelRegistry& registry,
                               const DeviceInfo& device, int num_threads, const ModelOptions& options) {
  check(!options.placement.split(), "a model that ranks share is on one device, or on GPUs of one kind");
  if (options.ranks > AllReduce::most_ranks) {
    throw Error(fmt::format("{} ranks are more than {}", options.ranks, AllReduce::most_ranks));
  }
  if (device.is_gpu()) {
    auto devices = std::make_unique<DeviceRanks>(options.ranks, registry, device);
    devices_ = devices.get();
    group_ = std::move(devices);
  } else {
    group_ = std::make_unique<ThreadRanks>(options.ranks);
  }
  for (std::int32_t rank = 0; rank < options.ranks; ++rank) {
    own_.push_back(group_->communicator(rank));
    ModelOptions of_rank = options;
    of_rank.communicator = own_.back().get();
    if (rank > 0) {
      of_rank.progress = nullptr;
    }
    models_.push_back(std::make_unique<Transformer>(config, file, registry, device,
                                                    threads_of_rank(num_threads, rank, options.ranks), of_rank));
  }
}

void TensorParallel::load(const Devices& devices, ThreadPool& pool) {
  threads_ = std::make_unique<ThreadPool>(ranks());
  for (std::int32_t rank = 0; rank < ranks(); ++rank) {
    pools_.push_back(std::make_unique<ThreadPool>(threads_of_rank(pool.num_threads(), rank, ranks())));
  }
  if (devices_ != nullptr) {
    std::vector<Device*> each;
    for (std::int32_t rank = 0; rank < ranks(); ++rank) {
      each.push_back(&devices.of_rank(static_cast<std::size_t>(rank)).at(Side::device));
    }
    devices_->open(std::move(each), {}, half_elements());
  }
  on_all_ranks([&](std::size_t rank) { models_[rank]->load(devices.of_rank(rank), *pools_[rank]); });
}

std::int64_t TensorParallel::half_elements() const {
  return first().halves_from() > 0 ? first().most_half_rows() * config().hidden : 0;
}

std::vector<RankBytes> TensorParallel::rank_bytes() const {
  const std::size_t exchanged = devices_ != nullptr ? DeviceRanks::device_bytes(ranks(), half_elements()) : 0;
  std::vector<RankBytes> bytes;
  for (const auto& model : models_) {
    bytes.push_back({.weights = model->device_weight_bytes(), .workspace = model->workspace_bytes() + exchanged});
  }
  return bytes;
}

std::size_t TensorParallel::packed_bytes() const {
  return sum_of(models_, [](const Transformer& model) { return model.packed_bytes(); });
}

std::size_t TensorParallel::workspace_bytes() const {
  return sum_of(models_, [](const Transformer& model) { return model.workspace_bytes(); });
}

std::size_t TensorParallel::device_weight_bytes() const {
  return sum_of(models_, [](const Transformer& model) { return model.device_weight_bytes(); });
}

void TensorParallel::on_all_ranks(const std::function<void(std::size_t)>& work) {
  group_->begin_step();
  threads_->run([&](int rank) {
    try {
      work(static_cast<std::size_t>(rank));
    } catch (...) {
      group_->fail(std::current_exception());
      throw;
    }
  });
}

void TensorParallel::wait() {
  for (const auto& model : models_) {
    model->wait();
  }
}

void TensorParallel::load_adapter(std::int32_t id, std::shared_ptr<const LoraFile> file) {
  for (const auto& model : models_) {
    try {
      model->load_adapter(id, file);
    } catch (...) {
      unload_adapter(id);
      throw;
    }
  }
}

void TensorParallel::unload_adapter(std::int32_t id) {
  std::ranges::for_each(models_, [id](const auto& model) { model->unload_adapter(id); });
}

void TensorParallel::forward(const BatchPlan& batch, SequenceMemory& memory) {
  on_all_ranks([&](std::size_t rank) { models_[rank]->forward(batch, memory.of_rank(rank)); });
}

void TensorParallel::forward_mtp(std::int32_t block, const BatchPlan& batch, SequenceMemory& memory) {
  on_all_ranks([&](std::size_t rank) { models_[rank]->forward_mtp(block, batch, memory.of_rank(rank)); });
}

std::vector<OperationTime> TensorParallel::time_operations(const BatchPlan& batch, SequenceMemory& memory) {
  std::vector<std::vector<OperationTime>> times(models_.size());
  on_all_ranks([&](std::size_t rank) { times[rank] = models_[rank]->time_operations(batch, memory.of_rank(rank)); });
  return times[0];
}

}  // namespace rocmforge
