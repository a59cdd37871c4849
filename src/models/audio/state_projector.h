#pragma once

#include <cstdint>
#include <memory>

#include "models/audio/audio_config.h"
#include "models/parts/operation.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// Makes rows for the text model of an audio encoder's states (SoundProjector). Not moved.
class StateProjector {
 public:
  StateProjector() = default;
  virtual ~StateProjector() = default;
  StateProjector(const StateProjector&) = delete;
  StateProjector& operator=(const StateProjector&) = delete;

  static std::unique_ptr<StateProjector> make(Planner& planner, const AudioConfig& config);

  /// From Buffers::hidden of Step::tokens states to `out` [AudioConfig::rows_of(states), text_width]. Buffers other than the
  /// hidden states are overwritten.
  virtual void run(const Step& step, float* out) const = 0;
};

}  // namespace rocmforge
