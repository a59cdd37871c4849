#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json.h"
#include "device/amd_system.h"

namespace rocmforge::app {

/// The least, the most and the mean of a sensor's values.
struct SensorRange {
  double least = 0.0;
  double most = 0.0;
  double sum = 0.0;
  std::int64_t count = 0;

  void add(double value);
  /// "2304 to 2500 (mean 2410)", "96" where all are equal; empty without a value.
  [[nodiscard]] std::string text() const;
};

/// A card's sensors before and during measurements.
class SensorLog {
 public:
  explicit SensorLog(AmdSensors before) : before_(std::move(before)) {}
  void add(const AmdSensors& during);
  /// {"before": "core 500 of 2500 MHz, memory 96 of 1250 MHz, 12 W of 355", "during": "core 2304 to 2500 MHz (mean 2410),
  /// ..., 37 readings", "not read": "hwmon power1_cap"}
  [[nodiscard]] nlohmann::ordered_json describe() const;

 private:
  AmdSensors before_;
  SensorRange core_, memory_, watts_;
  std::int64_t readings_ = 0;
};

/// Reads sensors 20 times a second while it is told that something is measured.
class SensorWatch {
 public:
  /// `read` is called on a thread of its own.
  explicit SensorWatch(std::function<AmdSensors()> read);
  ~SensorWatch();
  SensorWatch(const SensorWatch&) = delete;
  SensorWatch& operator=(const SensorWatch&) = delete;

  void measuring(bool now) { measuring_.store(now); }
  [[nodiscard]] nlohmann::ordered_json describe();

 private:
  void run();

  std::function<AmdSensors()> read_;
  std::mutex mutex_;
  SensorLog log_;
  std::atomic<bool> measuring_{false};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace rocmforge::app
