#pragma once

#include <cstddef>
#include <cstdint>

#include "device/devices.h"
#include "models/parts/operation.h"

namespace rocmforge {

// Copies between the device's memory and the host's buffers (Step::host) in a step of the device, in its order. On a GPU
// they do not wait. A device that is a CPU has memory of its own all the same.

void copy_to_host(const Step& step, void* to, const void* from, std::size_t size_bytes);
void copy_to_device(const Step& step, void* to, const void* from, std::size_t size_bytes);
/// For operations of the host: notes that the copies to it are on the stream, and waits until those that were noted last
/// have ended. Between the two, work of the device may be put on the stream that the host does not wait for.
void note_copies(const Step& step);
void wait_for_copies(const Step& step);

/// Hands the residual stream of a step, or its streams, to the other side, and once a step the inputs of all layers
/// (Buffers::per_layer).
class Crossing {
 public:
  /// `per_layer`, `streams`: elements of a row of Buffers::per_layer, and of Buffers::streams, 0 without them.
  Crossing(std::int64_t hidden, std::int64_t per_layer, std::int64_t streams);
  Crossing(const Crossing&) = delete;
  Crossing& operator=(const Crossing&) = delete;

  /// To be run on the device's step, both of them.
  [[nodiscard]] const Operations& to(Side side) const { return side == Side::host ? to_host_ : to_device_; }
  [[nodiscard]] const Operations& per_layer_to(Side side) const {
    return side == Side::host ? per_layer_to_host_ : per_layer_to_device_;
  }

 private:
  Operations to_host_;
  Operations to_device_;
  Operations per_layer_to_host_;
  Operations per_layer_to_device_;
};

}  // namespace rocmforge
