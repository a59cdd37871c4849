#include "checks/bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <vector>

namespace rocmforge {
namespace {

constexpr std::size_t load_bytes = std::size_t{64} << 20;
constexpr int load_copies = 32;
constexpr int rounds = 3;
constexpr double round_seconds = 0.002;
constexpr double most_calls = 50.0;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

std::string_view name(CheckPhase phase) {
  constexpr std::array<std::string_view, 6> names = {"making inputs", "computing what is expected", "a call",
                                                     "comparing",     "a call beside other work",   "timing"};
  return names[static_cast<std::size_t>(phase)];
}

DeviceLoad::DeviceLoad(Device& device) {
  if (device.is_gpu()) {
    stream_ = std::make_unique<Stream>(device);
    from_ = device.allocate(load_bytes, "the load beside a check");
    to_ = device.allocate(load_bytes, "the load beside a check");
  }
}

void DeviceLoad::start() {
  for (int copy = 0; exists() && copy < load_copies; ++copy) {
    stream_->copy_on_device(to_.data(), from_.data(), load_bytes);
  }
}

void DeviceLoad::wait() {
  if (exists()) {
    stream_->synchronize();
  }
}

CheckBench::CheckBench(Device& device, const KernelRegistry& registry, ThreadPool& pool)
    : device_(&device), registry_(&registry), load_(device) {
  host_context_.pool = &pool;
  context_.pool = &pool;
  if (device.is_gpu()) {
    context_.stream = &device.stream();
  }
}

double CheckBench::seconds_of(const std::function<void()>& call) {
  const auto timed = [&](int calls) {
    const double start = now();
    for (int i = 0; i < calls; ++i) {
      call();
      if (context_.stream != nullptr) {
        context_.stream->put_held();  // each call by itself
      }
    }
    if (context_.stream != nullptr) {
      context_.stream->synchronize();
    }
    return (now() - start) / calls;
  };
  const int calls = static_cast<int>(std::clamp(round_seconds / std::max(timed(1), 1e-7), 1.0, most_calls));
  std::vector<double> seconds;
  for (int round = 0; round < (calls > 1 ? rounds : 1); ++round) {
    seconds.push_back(timed(calls));
  }
  std::ranges::nth_element(seconds, seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2));
  return seconds[seconds.size() / 2];
}

}  // namespace rocmforge
