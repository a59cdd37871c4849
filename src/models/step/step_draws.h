#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "device/device.h"

namespace rocmforge {

/// The draws of the last two steps, in host memory: one can be read while the other is computed.
class StepDraws {
 public:
  /// For steps with up to `most_rows` sample rows.
  StepDraws(Device& device, std::int32_t most_rows);

  /// Records a step that draws `rows` tokens into `drawn`, in the device's memory, with their probabilities where these are
  /// not null. On a GPU it enqueues the copy on the
  /// compute stream, on a CPU the step is done.
  void add(const std::int32_t* drawn, const float* probabilities, std::int32_t rows);

  [[nodiscard]] std::int32_t newest_rows() const { return steps_[newest_].rows; }
  /// Waits only for that step.
  [[nodiscard]] std::span<const std::int32_t> newest() { return tokens(steps_[newest_]); }
  [[nodiscard]] std::span<const std::int32_t> previous() { return tokens(steps_[1 - newest_]); }

  /// Of the newest step; empty where none were given.
  [[nodiscard]] std::span<const float> probabilities();

 private:
  struct DrawnStep {
    PinnedBuffer tokens;
    PinnedBuffer probabilities;
    std::optional<Event> copied;  ///< GPU
    std::int32_t rows = 0;
    bool has_probabilities = false;
    bool pending = false;  ///< the host has not waited for the copy
  };
  static std::span<const std::int32_t> tokens(DrawnStep& step);

  Device* device_;
  DrawnStep steps_[2];
  int newest_ = 0;
};

}  // namespace rocmforge
