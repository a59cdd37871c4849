#include "bench/card_sensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace rocmforge::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds interval{50};

/// "core 500 of 2500 MHz"
void add_clock(std::vector<std::string>& parts, std::string_view what, const std::optional<AmdClock>& clock) {
  if (clock) {
    parts.push_back(fmt::format("{} {:.0f} of {:.0f} MHz", what, clock->now, clock->most));
  }
}

std::string text_of(const AmdSensors& sensors) {
  std::vector<std::string> parts;
  add_clock(parts, "core", sensors.core);
  add_clock(parts, "memory", sensors.memory);
  if (sensors.watts) {
    parts.push_back(fmt::format("{:.0f} W", *sensors.watts) +
                    (sensors.watts_limit ? fmt::format(" of {:.0f}", *sensors.watts_limit) : ""));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

void SensorRange::add(double value) {
  least = count == 0 ? value : std::min(least, value);
  most = std::max(most, value);
  sum += value;
  ++count;
}

std::string SensorRange::text() const {
  if (count == 0) {
    return {};
  }
  return least == most ? fmt::format("{:.0f}", least)
                       : fmt::format("{:.0f} to {:.0f} (mean {:.0f})", least, most, sum / static_cast<double>(count));
}

void SensorLog::add(const AmdSensors& during) {
  ++readings_;
  const auto add = [](SensorRange& range, std::optional<double> value) {
    if (value) {
      range.add(*value);
    }
  };
  const auto now = [](const std::optional<AmdClock>& clock) { return clock ? std::optional(clock->now) : std::nullopt; };
  add(core_, now(during.core));
  add(memory_, now(during.memory));
  add(watts_, during.watts);
}

Json SensorLog::describe() const {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view what, const SensorRange& range, std::string_view unit) {
    if (range.count > 0) {
      parts.push_back(fmt::format("{}{} {}", what, range.text(), unit));
    }
  };
  add("core ", core_, "MHz");
  add("memory ", memory_, "MHz");
  add("", watts_, "W");
  if (!parts.empty()) {
    parts.push_back(fmt::format("{} readings", readings_));
  }
  return {{"before", text_of(before_)},
          {"during", fmt::format("{}", fmt::join(parts, ", "))},
          {"not read", fmt::format("{}", fmt::join(before_.missing, ", "))}};
}

SensorWatch::SensorWatch(std::function<AmdSensors()> read)
    : read_(std::move(read)), log_(read_()), thread_([this] { run(); }) {}

SensorWatch::~SensorWatch() {
  ended_.store(true);
  thread_.join();
}

Json SensorWatch::describe() {
  const std::lock_guard lock(mutex_);
  return log_.describe();
}

void SensorWatch::run() {
  while (!ended_.load()) {
    if (measuring_.load()) {
      const AmdSensors now = read_();
      const std::lock_guard lock(mutex_);
      log_.add(now);
    }
    std::this_thread::sleep_for(interval);
  }
}

}  // namespace rocmforge::app
