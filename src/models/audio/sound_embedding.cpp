#include "models/audio/sound_embedding.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/error.h"

namespace rocmforge {
namespace {

constexpr std::int64_t taps = 3;

LinearName convolution(const std::string& name, std::int64_t outputs, std::int64_t inputs) {
  return {.name = name,
          .n = outputs,
          .needs_bias = true,
          .shape = {outputs, inputs, taps},
          .interleaved = taps};
}

}  // namespace

SoundEmbedding::SoundEmbedding(Planner& planner, const AudioConfig& config)
    : hidden_(config.encoder.hidden),
      input_(taps * config.bands),
      states_(config.states),
      slots_(static_cast<std::size_t>(taps * states_)) {
  first_ = planner.linear("a.conv1d.1", {convolution("a.conv1d.1", hidden_, config.bands)}, input_);
  first_gelu_ = planner.resolve<GatedActivation>({Activation::gelu, taps * hidden_, false});
  second_ = planner.linear("a.conv1d.2", {convolution("a.conv1d.2", hidden_, hidden_)}, taps * hidden_);
  second_gelu_ = planner.resolve<GatedActivation>({Activation::gelu, hidden_, false});
  put_ = planner.resolve<OverwriteRows>({hidden_});
  add_ = planner.resolve_for_width<ResidualAdd>({}, 3 * hidden_);
  positions_ = planner.floats("a.position_embd.weight", {config.positions, hidden_});
  std::iota(slots_.begin(), slots_.end(), 0);
  zero_row_ = planner.weights().computed(std::vector<float>(static_cast<std::size_t>(hidden_), 0.0f));
  slot_ids_ = planner.weights().constants(slots_);
  planner.buffers().need(BufferName::hidden, hidden_);
  planner.buffers().need(BufferName::normed, hidden_);
  planner.buffers().need(BufferName::projected, taps * hidden_);
  planner.buffers().need(BufferName::gathered, taps * hidden_);
}

std::size_t SoundEmbedding::input_bytes() const { return static_cast<std::size_t>(2 * states_ * input_) * sizeof(float); }

void SoundEmbedding::load(Device& device) {
  staged_ = device.allocate_pinned(input_bytes());
  if (device.is_gpu()) {
    memory_ = device.allocate(input_bytes(), "frames of sounds");
  }
  inputs_ = device.is_gpu() ? memory_.as<float>() : staged_.as<float>();
}

void SoundEmbedding::upload(std::span<const float> frames, std::int64_t states, Device& device) {
  check(states <= states_, "a piece has at most the encoder's states");
  const std::int64_t bands = input_ / taps;
  const std::int64_t count = std::ssize(frames) / bands;
  auto* out = staged_.as<float>();
  for (const std::int64_t first : {0, 1}) {
    for (std::int64_t row = first; row < 2 * states; row += 2) {
      for (std::int64_t frame = row - 1; frame <= row + 1; ++frame, out += bands) {
        if (frame < 0 || frame >= count) {
          std::fill_n(out, bands, 0.0f);
        } else {
          std::copy_n(frames.begin() + frame * bands, bands, out);
        }
      }
    }
  }
  if (device.is_gpu()) {
    device.stream().copy_to_device(memory_.as<float>(), staged_.as<float>(),
                                   static_cast<std::size_t>(2 * states * input_) * sizeof(float));
  }
}

void SoundEmbedding::convolve(const Step& step, const float* inputs, std::int64_t rows, std::int64_t slot) const {
  Step of_rows = step;
  of_rows.tokens = rows;
  if (rows > 0) {
    first_.run_strided(of_rows, inputs, input_, step.buffers.projected + slot * hidden_, {}, false, taps * hidden_);
  }
}

void SoundEmbedding::clear_slot(const Step& step, std::int64_t slot) const {
  put_.run({.x = zero_row_->data,
            .x_stride = hidden_,
            .from = slot_ids_->data,
            .ids = slot_ids_->data + slot,
            .count = 1,
            .out = step.buffers.projected},
           step);
}

/// A row of the second convolution's input is three rows of the first one's output: odd, even, odd. The odd ones stand in
/// two rows, and are computed for each.
void SoundEmbedding::run(const Step& step, bool ends_odd) const {
  const std::int64_t states = step.tokens;
  const Buffers& buffers = step.buffers;
  const float* odd = inputs_ + states * input_;
  clear_slot(step, 0);
  convolve(step, odd, states - 1, 3);
  convolve(step, inputs_, states, 1);
  convolve(step, odd, states, 2);
  if (ends_odd) {
    clear_slot(step, taps * states - 1);
  }
  first_gelu_.run({nullptr, buffers.projected, states, taps * hidden_, buffers.gathered}, step);
  second_.run(step, buffers.gathered, buffers.normed);
  second_gelu_.run({nullptr, buffers.normed, states, hidden_, buffers.hidden}, step);
  add_.run({.a = buffers.hidden, .b = positions_->data, .count = states * hidden_, .out = buffers.hidden}, step);
}

}  // namespace rocmforge
