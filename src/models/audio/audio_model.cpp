#include "models/audio/audio_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "audio/log_mel.h"
#include "audio/sound.h"
#include "base/sha256.h"
#include "memory/kv_group.h"
#include "models/config/clip_file.h"
#include "models/step/pass.h"

namespace rocmforge {
namespace {

/// The name of the file for one that the parts of a block use.
std::string file_name(std::string_view name) {
  std::string in_file(name);
  if (!name.starts_with("blk.")) {
    return in_file;
  }
  constexpr std::string_view output = ".attn_output.";
  if (const std::size_t at = in_file.find(output); at != std::string::npos) {
    in_file.replace(at, output.size(), ".attn_out.");
  }
  return "a." + in_file;
}

ModelOptions step_options(const AudioConfig& config, const DeviceInfo& device, const AudioOptions& options) {
  ModelOptions of_step;
  // Keys and values live for one layer of one step, so that their size hardly matters to a CPU.
  of_step.kv_dtype = device.is_gpu() ? DType::f16 : DType::f32;
  of_step.max_batch_tokens = config.states;
  of_step.context_length = config.states;
  of_step.max_sequences = 1;
  of_step.max_logit_rows = 1;
  of_step.graphs = false;
  of_step.overlap = options.overlap;
  of_step.small_weights = options.small_weights;
  return of_step;
}

std::array<std::uint32_t, 8> content_of(const PreparedSound& sound) {
  const std::array<std::uint32_t, 8> frames =
      sha256({reinterpret_cast<const std::uint8_t*>(sound.frames.data()), sound.frames.size() * sizeof(float)});
  std::array<std::uint32_t, 9> all{};
  std::ranges::copy(frames, all.begin());
  all[8] = static_cast<std::uint32_t>(sound.states);
  return sha256({reinterpret_cast<const std::uint8_t*>(all.data()), sizeof all});
}

}  // namespace

std::unique_ptr<AudioModel> AudioModel::plan(const GgufFile& file, const ModelConfig& text, const KernelRegistry& registry,
                                             const DeviceInfo& device, int num_threads, const AudioOptions& options) {
  return std::unique_ptr<AudioModel>(new AudioModel(file, text, registry, device, num_threads, options));
}

AudioModel::AudioModel(const GgufFile& file, const ModelConfig& text, const KernelRegistry& registry,
                       const DeviceInfo& device, int num_threads, const AudioOptions& options)
    : config_(AudioConfig::from_gguf(file, text)),
      options_(step_options(config_, device, options)),
      max_rows_(std::max(options.max_rows, config_.max_rows())),
      on_gpu_(device.is_gpu()),
      plan_{WeightTable(file, file_name), BufferPlan(options_.max_batch_tokens, 1)} {
  Planner planner(plan_, registry, device, num_threads, options_);
  embedding_.emplace(planner, config_);
  for (std::int32_t index = 0; index < config_.encoder.layers; ++index) {
    blocks_.push_back(std::make_unique<Block>(planner, config_.encoder, index, blocks_));
  }
  projector_ = StateProjector::make(planner, config_);
  for (const GgufTensor& tensor : file.tensors()) {
    if (is_of_audio_encoder(tensor.name)) {
      parameters_ += static_cast<double>(tensor.tensor.shape.elems());
    } else {
      plan_.weights.pass_over(tensor.name);  // of an image encoder
    }
  }
}

SequenceMemory::Size AudioModel::memory_size() const {
  const std::int32_t block_tokens = block_tokens_of(plan_.memory.groups());
  return {.blocks = {(options_.max_batch_tokens + block_tokens - 1) / block_tokens}};
}

std::size_t AudioModel::workspace_bytes() const {
  const KvGroups groups = plan_.memory.groups();
  return Rank::workspace_bytes(plan_, options_, on_gpu_) + embedding_->input_bytes() +
         static_cast<std::size_t>(max_rows_) * static_cast<std::size_t>(config_.text_width) * sizeof(float) +
         static_cast<std::size_t>(memory_size().blocks[0]) * block_bytes_of(groups[0], Side::device);
}

void AudioModel::load(Device& device, ThreadPool& pool, float* row_memory) {
  check(!rank_, "an encoder is loaded once");
  rank_.emplace(plan_, options_, device, Side::device, pool, Rank::Progress());
  embedding_->load(device);
  memory_.emplace(device, plan_.memory.groups(), memory_size());
  if (row_memory == nullptr) {
    own_rows_ =
        device.allocate(static_cast<std::size_t>(max_rows_) * static_cast<std::size_t>(config_.text_width) * sizeof(float),
                        "rows of sounds");
  }
  rows_ = row_memory != nullptr ? row_memory : own_rows_.as<float>();
  plan_.weights.warn_of_unused();
}

double AudioModel::flops(const PreparedSound& sound) const {
  const double states = sound.states;
  return 2.0 * parameters_ * states + 4.0 * states * states * config_.encoder.layers * config_.encoder.hidden;
}

std::int64_t AudioModel::most_tokens(std::int64_t samples) const {
  const std::int64_t of_piece = config_.frames() * samples_per_frame;
  return (samples + of_piece - 1) / of_piece * config_.max_rows();
}

std::vector<PreparedSound> AudioModel::prepare(std::span<const float> samples) const {
  std::vector<PreparedSound> pieces;
  if (!samples.empty()) {
    const LogMel mel = log_mel(samples, config_.bands, config_.spectrum_frames);
    const std::int64_t heard =
        config_.whole_pieces ? mel.frames() : (std::ssize(samples) + samples_per_frame - 1) / samples_per_frame;
    for (std::int64_t begin = 0; begin < heard; begin += config_.frames()) {
      const std::int64_t frames = std::min<std::int64_t>(heard - begin, config_.frames());
      PreparedSound piece;
      piece.states = static_cast<std::int32_t>((frames + 1) / 2);
      piece.ends_odd = config_.silent_ends && frames % 2 != 0;
      piece.tokens = config_.rows_of(piece.states);
      // The last state sees two frames behind its own, where the piece has them.
      const std::int64_t seen =
          config_.silent_ends ? frames : std::min<std::int64_t>(2 * piece.states + 1, config_.frames());
      piece.frames.assign(mel.values.begin() + begin * config_.bands, mel.values.begin() + (begin + seen) * config_.bands);
      piece.content = content_of(piece);
      if (piece.tokens > 0) {
        pieces.push_back(std::move(piece));
      }
    }
  }
  if (pieces.empty()) {
    throw Error(fmt::format("it has {} samples at {} Hz, which is too short", samples.size(), encoder_rate));
  }
  return pieces;
}

GivenRows AudioModel::encode_rows(std::span<const PreparedSound* const> sounds, const std::optional<GivenRows>& before) {
  check(rank_.has_value(), "the encoder is loaded");
  GivenRows rows = before.value_or(GivenRows{.data = rows_, .stride = config_.text_width});
  for (const PreparedSound* sound : sounds) {
    check(rows.count + sound->tokens <= max_rows_, "the pieces have more rows than the encoder was planned for");
    run_step(*sound, rows_ + rows.count * rows.stride);
    rows.count += sound->tokens;
  }
  return rows;
}

std::span<const float> AudioModel::read_rows(const GivenRows& rows) {
  return rank_->read_back(rows.data, static_cast<std::size_t>(rows.count * rows.stride), rows_on_host_);
}

void AudioModel::write_batch(std::int32_t states) {
  batch_.clear();
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(states), 0);
  const std::int32_t block_tokens = memory_->block_tokens();
  std::vector<std::int32_t> blocks(static_cast<std::size_t>((states + block_tokens - 1) / block_tokens));
  std::iota(blocks.begin(), blocks.end(), 0);
  batch_.add_sequence(tokens, 0, blocks, false);
  batch_.finish();
  batch_.validate(memory_->num_blocks(), memory_->block_tokens());
}

void AudioModel::run_step(const PreparedSound& sound, float* out) {
  rank_->wait();  // an earlier step may still read the frames
  embedding_->upload(sound.frames, sound.states, rank_->device());
  write_batch(sound.states);
  rank_->run(batch_, *memory_, Rank::Recorded::no, [&](const StepArrays& arrays, const RunOperations&) {
    Step step = begin_step(arrays, memory_->states(), *rank_);
    embedding_->run(step, sound.ends_odd);
    for (const std::unique_ptr<Block>& block : blocks_) {
      find_pages(block->kv_place(), arrays, *memory_, step);
      run_all(block->mix(), step);
      run_all(block->finish(), step);
    }
    projector_->run(step, out);
  });
}

}  // namespace rocmforge
