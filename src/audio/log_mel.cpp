#include "audio/log_mel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <numbers>
#include <utility>

#include "audio/sound.h"
#include "base/error.h"

namespace rocmforge {
namespace {

using Complex = std::complex<double>;

constexpr std::size_t window_size = 400;
constexpr std::size_t bins = window_size / 2 + 1;
constexpr std::size_t side = 20;  ///< window_size is its square
constexpr double silence = -10.0;

/// The Fourier transform of window_size complex numbers x[side a + b], as transforms of `side` numbers each: over a, turned
/// by the places b, then over b.
class Transform {
 public:
  Transform() {
    for (std::size_t i = 0; i < window_size; ++i) {
      turns_[i] = std::polar(1.0, -2.0 * std::numbers::pi * static_cast<double>(i) / window_size);
    }
  }

  void run(const std::array<Complex, window_size>& in, std::array<Complex, window_size>& out) const {
    std::array<Complex, window_size> inner;  // [b, k]
    for (std::size_t b = 0; b < side; ++b) {
      for (std::size_t k = 0; k < side; ++k) {
        inner[side * b + k] = of_side(&in[b], k) * turns_[b * k];
      }
    }
    for (std::size_t k = 0; k < side; ++k) {
      for (std::size_t l = 0; l < side; ++l) {
        out[k + side * l] = of_side(&inner[k], l);
      }
    }
  }

 private:
  /// Number k of the transform of the `side` numbers x[0], x[side], ...
  [[nodiscard]] Complex of_side(const Complex* x, std::size_t k) const {
    double re = 0.0;
    double im = 0.0;
    for (std::size_t a = 0; a < side; ++a) {
      // The product written out: that of std::complex looks for infinities.
      const Complex& turn = turns_[side * (a * k % side)];
      re += x[side * a].real() * turn.real() - x[side * a].imag() * turn.imag();
      im += x[side * a].real() * turn.imag() + x[side * a].imag() * turn.real();
    }
    return {re, im};
  }

  std::array<Complex, window_size> turns_;
};

/// Slaney's scale: linear up to 1,000 Hz, then logarithmic.
double mel_of(double hertz) {
  return hertz < 1000.0 ? 3.0 * hertz / 200.0 : 15.0 + std::log(hertz / 1000.0) * 27.0 / std::log(6.4);
}
double hertz_of(double mel) {
  return mel < 15.0 ? 200.0 * mel / 3.0 : 1000.0 * std::exp(std::log(6.4) / 27.0 * (mel - 15.0));
}

/// A band's triangle: factors of the bins from `first` on.
struct Band {
  std::size_t first = 0;
  std::vector<double> factors{};
};

std::vector<Band> bands_of(std::int32_t count) {
  const auto corner = [most = mel_of(encoder_rate / 2.0), count](std::int32_t i) {
    return hertz_of(most * i / (count + 1));
  };
  std::vector<Band> bands;
  for (std::int32_t i = 0; i < count; ++i) {
    const double left = corner(i);
    const double centre = corner(i + 1);
    const double right = corner(i + 2);
    Band band;
    for (std::size_t bin = 0; bin < bins; ++bin) {
      const double hertz = static_cast<double>(bin) * encoder_rate / window_size;
      const double height = std::min((hertz - left) / (centre - left), (right - hertz) / (right - centre));
      if (height > 0.0) {
        band.first = band.factors.empty() ? bin : band.first;
        band.factors.push_back(height * 2.0 / (right - left));
      }
    }
    bands.push_back(std::move(band));
  }
  return bands;
}

class Spectrogram {
 public:
  /// Of `samples` and zeros behind them, `count` together.
  Spectrogram(std::span<const float> samples, std::int64_t count, std::int32_t bands)
      : samples_(samples), count_(count), bands_(bands_of(bands)) {
    for (std::size_t i = 0; i < window_size; ++i) {
      window_[i] = 0.5 - 0.5 * std::cos(2.0 * std::numbers::pi * static_cast<double>(i) / window_size);
    }
  }

  /// The logarithms [2, bands] of two neighbouring frames, which are the real and the imaginary part of one transform: the
  /// first one's spectrum is the part of it that equals its mirror image's conjugate.
  void frames(std::int64_t frame, float* out) {
    for (std::size_t i = 0; i < window_size; ++i) {
      const std::int64_t at = frame * samples_per_frame + static_cast<std::int64_t>(i) - std::int64_t{window_size} / 2;
      in_[i] = {window_[i] * sample(at), window_[i] * sample(at + samples_per_frame)};
    }
    transform_.run(in_, out_);
    for (std::size_t bin = 0; bin < bins; ++bin) {
      const Complex mirrored = std::conj(out_[(window_size - bin) % window_size]);
      first_[bin] = std::norm(0.5 * (out_[bin] + mirrored));
      second_[bin] = std::norm(0.5 * (out_[bin] - mirrored));
    }
    write(first_, out);
    write(second_, out + bands_.size());
  }

 private:
  [[nodiscard]] double sample(std::int64_t at) const {
    const std::int64_t mirrored = at < 0 ? -at : at >= count_ ? 2 * (count_ - 1) - at : at;
    return mirrored < std::ssize(samples_) ? samples_[static_cast<std::size_t>(mirrored)] : 0.0;
  }
  void write(const std::array<double, bins>& power, float* out) const {
    for (const Band& band : bands_) {
      double sum = 0.0;
      for (std::size_t i = 0; i < band.factors.size(); ++i) {
        sum += power[band.first + i] * band.factors[i];
      }
      *out++ = static_cast<float>(std::log10(std::max(sum, 1e-10)));
    }
  }

  std::span<const float> samples_;
  std::int64_t count_;
  std::vector<Band> bands_;
  Transform transform_;
  std::array<double, window_size> window_{};
  std::array<Complex, window_size> in_;
  std::array<Complex, window_size> out_;
  std::array<double, bins> first_{};
  std::array<double, bins> second_{};
};

}  // namespace

LogMel log_mel(std::span<const float> samples, std::int32_t bands, std::int64_t frames_of_piece) {
  check(!samples.empty() && bands > 0 && frames_of_piece > 1, "a spectrogram has samples, bands and pieces of frames");
  const std::int64_t of_piece = frames_of_piece * samples_per_frame;
  const std::int64_t count = (std::ssize(samples) + of_piece - 1) / of_piece * of_piece;
  const std::int64_t frames = count / samples_per_frame;
  // Frames behind the last sample are silent.
  const std::int64_t heard = std::min(frames, (std::ssize(samples) + std::int64_t{window_size} / 2) / samples_per_frame + 1);
  LogMel mel{bands, std::vector<float>(static_cast<std::size_t>(frames * bands), static_cast<float>(silence))};
  Spectrogram spectrogram(samples, count, bands);
  std::vector<float> pair(static_cast<std::size_t>(2 * bands));
  for (std::int64_t frame = 0; frame < heard; frame += 2) {
    spectrogram.frames(frame, pair.data());
    const std::int64_t copied = std::min<std::int64_t>(heard - frame, 2) * bands;
    std::copy_n(pair.begin(), copied, mel.values.begin() + frame * bands);
  }
  const float least = *std::ranges::max_element(mel.values) - 8.0f;
  for (float& value : mel.values) {
    value = (std::max(value, least) + 4.0f) / 4.0f;
  }
  return mel;
}

}  // namespace rocmforge
