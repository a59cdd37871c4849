#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "images/image.h"

namespace rocmforge {
namespace {

constexpr int coefficient_bits = 22;  // 8 bits are the pixel's, and 2 keep sums of bicubic coefficients from overflowing
constexpr int channels = 3;

double sinc(double x) {
  const double angle = x * std::numbers::pi;
  return x == 0.0 ? 1.0 : std::sin(angle) / angle;
}

double support_of(ResizeFilter filter) {
  switch (filter) {
    case ResizeFilter::bilinear:
      return 1.0;
    case ResizeFilter::bicubic:
      return 2.0;
    case ResizeFilter::lanczos:
      return 3.0;
  }
  fail_check("unknown filter");
}

double weight(double x, ResizeFilter filter) {
  if (filter == ResizeFilter::lanczos) {
    return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
  }
  x = std::abs(x);
  if (filter == ResizeFilter::bilinear) {
    return x < 1.0 ? 1.0 - x : 0.0;
  }
  constexpr double a = -0.5;
  if (x < 1.0) {
    return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  }
  return x < 2.0 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
}

/// Which inputs an output is made of, along one axis.
struct Window {
  int first;
  int count;
  std::size_t coefficients;  ///< where they begin in Taps
};
struct Taps {
  std::vector<Window> windows{};  ///< one for each output
  std::vector<std::int32_t> coefficients{};

  [[nodiscard]] std::span<const std::int32_t> of(const Window& window) const {
    return std::span(coefficients).subspan(window.coefficients, static_cast<std::size_t>(window.count));
  }
};

/// The order of operations is Pillow's, since it decides the last bit of a coefficient.
Taps taps_of(int in, int out, ResizeFilter filter) {
  const double scale = static_cast<double>(in) / out;
  const double stretch = std::max(scale, 1.0);
  const double support = support_of(filter) * stretch;
  const double step = 1.0 / stretch;
  Taps taps;
  taps.windows.reserve(static_cast<std::size_t>(out));
  std::vector<double> weights;
  for (int i = 0; i < out; ++i) {
    const double center = (i + 0.5) * scale;
    const int first = std::max(static_cast<int>(center - support + 0.5), 0);
    const int count = std::min(static_cast<int>(center + support + 0.5), in) - first;
    weights.clear();
    double sum = 0.0;
    for (int k = 0; k < count; ++k) {
      weights.push_back(weight((k + first - center + 0.5) * step, filter));
      sum += weights.back();
    }
    taps.windows.push_back({first, count, taps.coefficients.size()});
    for (const double each : weights) {
      const double share = (sum != 0.0 ? each / sum : each) * (1 << coefficient_bits);
      taps.coefficients.push_back(static_cast<std::int32_t>(share < 0 ? share - 0.5 : share + 0.5));
    }
  }
  return taps;
}

std::uint8_t rounded(std::int32_t sum) { return static_cast<std::uint8_t>(std::clamp(sum >> coefficient_bits, 0, 255)); }

Image resize_columns(const Image& image, int width, ResizeFilter filter) {
  const Taps taps = taps_of(image.width, width, filter);
  Image out{width, image.height, std::vector<std::uint8_t>(static_cast<std::size_t>(width) * image.height * channels)};
  for (int y = 0; y < image.height; ++y) {
    const std::uint8_t* row = image.rgb.data() + static_cast<std::size_t>(y) * image.width * channels;
    std::uint8_t* target = out.rgb.data() + static_cast<std::size_t>(y) * width * channels;
    for (const Window& window : taps.windows) {
      std::int32_t sums[channels] = {1 << (coefficient_bits - 1), 1 << (coefficient_bits - 1), 1 << (coefficient_bits - 1)};
      const std::uint8_t* pixel = row + static_cast<std::size_t>(window.first) * channels;
      for (const std::int32_t coefficient : taps.of(window)) {
        for (int c = 0; c < channels; ++c) {
          sums[c] += *pixel++ * coefficient;
        }
      }
      for (const std::int32_t sum : sums) {
        *target++ = rounded(sum);
      }
    }
  }
  return out;
}

Image resize_rows(const Image& image, int height, ResizeFilter filter) {
  const Taps taps = taps_of(image.height, height, filter);
  const std::size_t row_bytes = static_cast<std::size_t>(image.width) * channels;
  Image out{image.width, height, std::vector<std::uint8_t>(row_bytes * height)};
  std::vector<std::int32_t> sums(row_bytes);
  std::uint8_t* target = out.rgb.data();
  for (const Window& window : taps.windows) {
    std::ranges::fill(sums, 1 << (coefficient_bits - 1));
    const std::uint8_t* row = image.rgb.data() + static_cast<std::size_t>(window.first) * row_bytes;
    for (const std::int32_t coefficient : taps.of(window)) {
      for (std::size_t i = 0; i < row_bytes; ++i) {
        sums[i] += row[i] * coefficient;
      }
      row += row_bytes;
    }
    target = std::ranges::transform(sums, target, rounded).out;
  }
  return out;
}

}  // namespace

Image resize(const Image& image, int width, int height, ResizeFilter filter) {
  check(image.width > 0 && image.height > 0 && width > 0 && height > 0, "an image has no sides");
  check(image.rgb.size() == static_cast<std::size_t>(image.width) * image.height * channels, "an image lacks pixels");
  if (width == image.width) {
    return height == image.height ? image : resize_rows(image, height, filter);
  }
  Image columns = resize_columns(image, width, filter);
  return height == image.height ? std::move(columns) : resize_rows(columns, height, filter);
}

}  // namespace rocmforge
