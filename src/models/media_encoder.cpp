#include "models/media_encoder.h"

#include <numeric>
#include <utility>

#include "base/error.h"
#include "memory/kv_group.h"
#include "models/step/pass.h"

namespace rocmforge {

MediaEncoder::MediaEncoder(const GgufFile& file, WeightTable::FileNames names, const DeviceInfo& device, const Size& size)
    : max_rows_(size.max_rows),
      row_width_(size.row_width),
      on_gpu_(device.is_gpu()),
      plan_{WeightTable(file, std::move(names)), BufferPlan(size.states, 1)} {
  // Keys and values live for one layer of one step, so that their size hardly matters to a CPU.
  options_.kv_dtype = device.is_gpu() ? DType::f16 : DType::f32;
  options_.max_batch_tokens = size.states;
  options_.context_length = size.states;
  options_.max_sequences = size.sequences;
  options_.max_logit_rows = 1;
  options_.graphs = false;
  options_.given_rows = size.places_rows;
  options_.overlap = size.overlap;
  options_.small_weights = size.small_weights;
  plan_.position_axes = size.position_axes;
}

void MediaEncoder::plan_blocks(Planner& planner, const ModelConfig& layers) {
  hidden_ = layers.hidden;
  for (std::int32_t index = 0; index < layers.layers; ++index) {
    blocks_.push_back(std::make_unique<Block>(planner, layers, index, blocks_));
  }
}

void MediaEncoder::count_weights(const GgufFile& file, const std::function<bool(std::string_view name)>& is_own) {
  for (const GgufTensor& tensor : file.tensors()) {
    if (is_own(tensor.name)) {
      parameters_ += static_cast<double>(tensor.tensor.shape.elems());
    } else {
      plan_.weights.pass_over(tensor.name);
    }
  }
}

SequenceMemory::Size MediaEncoder::memory_size() const {
  const std::int32_t block_tokens = block_tokens_of(plan_.memory.groups());
  // Each sequence may leave all but one place of its last block empty.
  return {.blocks = {(options_.max_batch_tokens + options_.max_sequences * (block_tokens - 1)) / block_tokens}};
}

std::size_t MediaEncoder::row_bytes() const { return static_cast<std::size_t>(max_rows_ * row_width_) * sizeof(float); }

std::size_t MediaEncoder::workspace_bytes() const {
  const KvGroups groups = plan_.memory.groups();
  return Rank::workspace_bytes(plan_, options_, on_gpu_) + input_bytes() + row_bytes() +
         static_cast<std::size_t>(memory_size().blocks[0]) * block_bytes_of(groups[0], Side::device);
}

void MediaEncoder::load(Device& device, ThreadPool& pool, float* row_memory) {
  check(!rank_, "an encoder is loaded once");
  pool_ = &pool;
  rank_.emplace(plan_, options_, device, Side::device, pool, Rank::Progress());
  load_inputs(device);
  memory_.emplace(device, plan_.memory.groups(), memory_size());
  if (row_memory == nullptr) {
    own_rows_ = device.allocate(row_bytes(), "rows of an encoder");
  }
  rows_ = row_memory != nullptr ? row_memory : own_rows_.as<float>();
  plan_.weights.warn_of_unused();
}

double MediaEncoder::flops_of(std::int64_t states) const {
  const auto count = static_cast<double>(states);
  return 2.0 * parameters_ * count + 4.0 * count * count * num_layers() * static_cast<double>(hidden_);
}

std::span<const float> MediaEncoder::read_rows(const GivenRows& rows) {
  return rank_->read_back(rows.data, static_cast<std::size_t>(rows.count * rows.stride), rows_on_host_);
}

GivenRows MediaEncoder::begin_rows(const std::optional<GivenRows>& before) const {
  check(is_loaded(), "the encoder is loaded");
  return before.value_or(GivenRows{.data = rows_, .stride = row_width_});
}

float* MediaEncoder::room_behind(const GivenRows& rows, std::int64_t count) const {
  check(rows.count + count <= max_rows_, "there are more rows than the encoder was planned for");
  return rows_ + rows.count * row_width_;
}

void MediaEncoder::begin_batch() {
  batch_.clear();
  next_block_ = 0;
}

void MediaEncoder::add_sequence(std::int64_t states) {
  const auto block_tokens = static_cast<std::int64_t>(memory_->block_tokens());
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(states), 0);
  std::vector<std::int32_t> blocks(static_cast<std::size_t>((states + block_tokens - 1) / block_tokens));
  std::iota(blocks.begin(), blocks.end(), next_block_);
  next_block_ += static_cast<std::int32_t>(blocks.size());
  batch_.add_sequence(tokens, 0, blocks, false);
}

void MediaEncoder::finish_batch() {
  batch_.finish();
  batch_.validate(memory_->num_blocks(), memory_->block_tokens());
}

void MediaEncoder::run_batch(const std::function<void(const StepArrays& arrays, Step& step)>& compute) {
  rank_->run(batch_, *memory_, Rank::Recorded::no, [&](const StepArrays& arrays, const RunOperations&) {
    Step step = begin_step(arrays, memory_->states(), *rank_);
    compute(arrays, step);
  });
}

void MediaEncoder::run_block(std::int32_t index, const StepArrays& arrays, Step& step) {
  const Block& block = *blocks_[static_cast<std::size_t>(index)];
  find_pages(block.kv_place(), arrays, *memory_, step);
  run_all(block.mix(), step);
  run_all(block.finish(), step);
}

void MediaEncoder::wait() {
  if (rank_) {
    rank_->wait();
  }
}

}  // namespace rocmforge
