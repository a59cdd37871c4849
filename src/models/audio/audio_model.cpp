#include "models/audio/audio_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "audio/log_mel.h"
#include "audio/sound.h"
#include "base/sha256.h"
#include "models/config/clip_file.h"

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
  return std::unique_ptr<AudioModel>(
      new AudioModel(AudioConfig::from_gguf(file, text), file, registry, device, num_threads, options));
}

AudioModel::AudioModel(AudioConfig config, const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device,
                       int num_threads, const AudioOptions& options)
    : MediaEncoder(file, file_name, device,
                   {.states = config.states,
                    .max_rows = std::max(options.max_rows, config.max_rows()),
                    .row_width = config.text_width,
                    .overlap = options.overlap,
                    .small_weights = options.small_weights}),
      config_(std::move(config)) {
  Planner planner = make_planner(registry, device, num_threads);
  embedding_.emplace(planner, config_);
  plan_blocks(planner, config_.encoder);
  projector_ = StateProjector::make(planner, config_);
  count_weights(file, is_of_audio_encoder);
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
  GivenRows rows = begin_rows(before);
  for (const PreparedSound* sound : sounds) {
    run_step(*sound, room_behind(rows, sound->tokens));
    rows.count += sound->tokens;
  }
  return rows;
}

void AudioModel::run_step(const PreparedSound& sound, float* out) {
  wait();  // an earlier step may still read the frames
  embedding_->upload(sound.frames, sound.states, device());
  begin_batch();
  add_sequence(sound.states);
  finish_batch();
  run_batch([&](const StepArrays& arrays, Step& step) {
    embedding_->run(step, sound.ends_odd);
    for (std::int32_t index = 0; index < num_layers(); ++index) {
      run_block(index, arrays, step);
    }
    projector_->run(step, out);
  });
}

}  // namespace rocmforge
