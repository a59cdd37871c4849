#include <fmt/format.h>
#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "audio/reader.h"
#include "base/error.h"

namespace rocmforge {
namespace {

constexpr std::int64_t frames_of_block = 16'384;
constexpr int least_rate = 1000;
constexpr int most_rate = 192'000;

/// The file's bytes as libsndfile reads them.
struct Bytes {
  std::span<const std::uint8_t> all;
  std::int64_t at = 0;
};

Bytes& bytes_of(void* user) { return *static_cast<Bytes*>(user); }

sf_count_t size_of(void* user) { return std::ssize(bytes_of(user).all); }

sf_count_t move_to(sf_count_t offset, int whence, void* user) {
  Bytes& bytes = bytes_of(user);
  const std::int64_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? bytes.at : std::ssize(bytes.all);
  // Compared before they are added: a broken file's offset may be any number.
  if (offset < -from || offset > std::ssize(bytes.all) - from) {
    return -1;
  }
  bytes.at = from + offset;
  return bytes.at;
}

sf_count_t read_bytes(void* to, sf_count_t count, void* user) {
  Bytes& bytes = bytes_of(user);
  const std::int64_t taken = std::clamp<std::int64_t>(count, 0, std::ssize(bytes.all) - bytes.at);
  if (taken > 0) {
    std::memcpy(to, bytes.all.data() + bytes.at, static_cast<std::size_t>(taken));
    bytes.at += taken;
  }
  return taken;
}

sf_count_t write_nothing(const void* /*from*/, sf_count_t /*count*/, void* /*user*/) { return 0; }

sf_count_t place_in(void* user) { return bytes_of(user).at; }

struct Closer {
  void operator()(SNDFILE* file) const { sf_close(file); }
};
using File = std::unique_ptr<SNDFILE, Closer>;

/// libsndfile reads many more formats, of which none is wanted.
bool is_wanted(int format) {
  const int type = format & SF_FORMAT_TYPEMASK;
  return type == SF_FORMAT_WAV || type == SF_FORMAT_WAVEX || type == SF_FORMAT_FLAC || type == SF_FORMAT_OGG ||
         type == SF_FORMAT_MPEG;
}

void check_header(const SF_INFO& info, const SoundLimits& limits) {
  if (!is_wanted(info.format)) {
    throw Error("it is of another format than its first bytes say");
  }
  if (info.channels < 1 || info.channels > limits.channels) {
    throw Error(fmt::format("it has {} channels, {} are read", info.channels, limits.channels));
  }
  if (info.samplerate < least_rate || info.samplerate > most_rate) {
    throw Error(fmt::format("it has {} samples a second, {} to {} are read", info.samplerate, least_rate, most_rate));
  }
}

/// Adds the means of the channels. Such large samples can't be meant, and their squares must stay finite.
void add_means(std::span<const float> frames, int channels, std::vector<float>& out) {
  constexpr float largest = 1e6f;
  for (std::size_t at = 0; at < frames.size(); at += static_cast<std::size_t>(channels)) {
    float sum = 0.0f;
    for (const float sample : frames.subspan(at, static_cast<std::size_t>(channels))) {
      sum += sample;
    }
    if (!(std::abs(sum) <= largest)) {
      throw Error("it has samples that are no numbers, or far beyond full scale");
    }
    out.push_back(sum / static_cast<float>(channels));
  }
}

}  // namespace

bool reads_sounds() { return true; }

Sound read_sound(std::span<const std::uint8_t> file, const SoundLimits& limits, const SoundCost& cost) {
  Bytes bytes{file};
  SF_VIRTUAL_IO reading{size_of, move_to, read_bytes, write_nothing, place_in};
  SF_INFO info{};
  const File opened(sf_open_virtual(&reading, SFM_READ, &info, &bytes));
  if (opened == nullptr) {
    throw Error("its header is broken, or its encoding is not read");
  }
  check_header(info, limits);
  const std::int64_t most = std::min(limits.samples, std::int64_t{limits.seconds} * info.samplerate);
  std::vector<float> block(static_cast<std::size_t>(frames_of_block * info.channels));
  Sound sound{.rate = info.samplerate, .samples = {}};
  for (;;) {
    spend(cost.budget, block.size());
    const sf_count_t count = sf_readf_float(opened.get(), block.data(), frames_of_block);
    if (count <= 0) {
      break;
    }
    if (std::ssize(sound.samples) + count > most) {
      throw Error(fmt::format("it is longer than {} seconds, which are read", most / info.samplerate));
    }
    if (cost.hold) {
      cost.hold(count * static_cast<std::int64_t>(2 * sizeof(float)));  // a vector that grows holds up to twice as much
    }
    add_means(std::span(block).first(static_cast<std::size_t>(count * info.channels)), info.channels, sound.samples);
  }
  if (sound.samples.empty()) {
    throw Error("it has no samples, or is broken");
  }
  return sound;
}

}  // namespace rocmforge
