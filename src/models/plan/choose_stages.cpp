#include "models/plan/choose_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace rocmforge {
namespace {

/// For each layer, and behind the last one, whether a stage may begin there.
std::vector<bool> borders_of(const StageNeeds& needs) {
  std::vector<bool> borders(needs.layers.size() + 1, true);
  for (std::size_t layer = 0; layer < needs.layers.size(); ++layer) {
    if (const int owner = needs.layers[layer].keys_of; owner >= 0) {
      std::fill(borders.begin() + owner + 1, borders.begin() + static_cast<std::ptrdiff_t>(layer) + 1, false);
    }
  }
  return borders;
}

[[noreturn]] void refuse_stages(std::size_t devices, std::size_t stages) {
  throw Error(fmt::format("its layers can't be divided among {} devices, only among {}{}", devices, stages,
                          stages == 1 ? "" : " or fewer"));
}

/// How full the devices are, from 0.
class Fullness {
 public:
  explicit Fullness(const StageNeeds& needs) : needs_(&needs), before_(needs.layers.size() + 1) {
    for (std::size_t layer = 0; layer < needs.layers.size(); ++layer) {
      before_[layer + 1] = before_[layer] + needs.layers[layer].bytes;
    }
  }
  /// Of a device with the layers from `first` to `end`.
  [[nodiscard]] double of(std::size_t device, std::size_t first, std::size_t end) const {
    std::int64_t bytes = needs_->workspace + before_[end] - before_[first];
    bytes += device == 0 ? needs_->embedding : 0;
    bytes += device + 1 == needs_->available.size() ? needs_->output : 0;
    return static_cast<double>(bytes) / static_cast<double>(std::max<std::int64_t>(needs_->available[device], 1));
  }

 private:
  const StageNeeds* needs_;
  std::vector<std::int64_t> before_;  ///< bytes of the layers before each
};

}  // namespace

std::vector<std::int32_t> choose_stages(const StageNeeds& needs) {
  const std::size_t devices = needs.available.size();
  const std::size_t layers = needs.layers.size();
  check(devices > 0 && layers > 0, "there are devices and layers");
  const std::vector<bool> borders = borders_of(needs);
  const Fullness fullness(needs);
  constexpr double never = std::numeric_limits<double>::infinity();
  // For the first devices, with the layers before each end: how full the fullest is, and where the last of them begins.
  std::vector<std::vector<double>> fullest(devices, std::vector<double>(layers + 1, never));
  std::vector<std::vector<std::size_t>> begins(devices, std::vector<std::size_t>(layers + 1, 0));
  for (std::size_t device = 0; device < devices; ++device) {
    for (std::size_t end = device + 1; end <= layers; ++end) {
      if (!borders[end]) {
        continue;
      }
      for (std::size_t first = device; first < (device == 0 ? 1 : end); ++first) {
        const double before = device == 0 ? 0.0 : fullest[device - 1][first];
        const double most = std::max(before, fullness.of(device, first, end));
        if (most < fullest[device][end]) {
          fullest[device][end] = most;
          begins[device][end] = first;
        }
      }
    }
  }
  if (fullest[devices - 1][layers] == never) {
    refuse_stages(devices, static_cast<std::size_t>(std::count(borders.begin() + 1, borders.end(), true)));
  }
  std::vector<std::int32_t> ends(devices);
  std::size_t end = layers;
  for (std::size_t device = devices; device-- > 0;) {
    ends[device] = static_cast<std::int32_t>(end);
    end = begins[device][end];
  }
  return ends;
}

std::vector<std::int32_t> stages_in_proportion(const StageNeeds& needs, std::span<const double> proportions) {
  if (!std::ranges::all_of(proportions, [](double part) { return part > 0.0 && std::isfinite(part); })) {
    throw Error("--tensor-split: each number must be above 0; a device without layers is left out of --device");
  }
  const double all = std::accumulate(proportions.begin(), proportions.end(), 0.0);
  const std::vector<bool> borders = borders_of(needs);
  const std::size_t layers = needs.layers.size();
  std::vector<std::int32_t> ends;
  double sum = 0.0;
  for (std::size_t device = 0; device < proportions.size(); ++device) {
    sum += proportions[device];
    // The first layer that begins where this device's part has ended.
    auto end = static_cast<std::size_t>(std::ceil(sum / all * static_cast<double>(layers + 1) - 1e-9));
    end = device + 1 == proportions.size() ? layers : std::min(end, layers);
    while (!borders[end]) {
      --end;
    }
    if (end <= static_cast<std::size_t>(ends.empty() ? 0 : ends.back())) {
      throw Error(
          fmt::format("--tensor-split leaves device {} of {} no layer of {}", device + 1, proportions.size(), layers));
    }
    ends.push_back(static_cast<std::int32_t>(end));
  }
  return ends;
}

}  // namespace rocmforge
