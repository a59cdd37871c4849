#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>

#include "device/device.h"

namespace rocmforge {

/// Hands arrays of a step from one device to another, in the order of their streams: the host waits for neither. What is
/// sent lies in a box until it is received, so that the sender may go on with its next step; the step behind that one waits
/// for the receiver.
class StepLink {
 public:
  /// peer: the box is the receiver's memory, which the sender can access; host: pinned memory of the host. Two CPUs copy.
  enum class Route { peer, host };
  /// For up to `size_bytes` at once. The devices must outlive the link. Throws Error where there is not enough memory.
  StepLink(Device& from, Device& to, std::size_t size_bytes, Route route);
  StepLink(const StepLink&) = delete;
  StepLink& operator=(const StepLink&) = delete;

  struct Part {
    void* data = nullptr;  ///< in the memory of the sender, or of the receiver
    std::size_t size_bytes = 0;
  };
  /// Sends the parts. What was sent before and has not been received is lost.
  void send(std::initializer_list<Part> parts);
  /// Takes what was sent last, into parts of the same sizes.
  void receive(std::initializer_list<Part> parts);

  /// Of the receiver's memory.
  static std::size_t device_bytes(std::size_t size_bytes, Route route) { return route == Route::peer ? size_bytes : 0; }

 private:
  void check_room(std::initializer_list<Part> parts) const;

  Device* from_;
  Device* to_;
  Route route_;
  std::size_t size_bytes_;
  DeviceBuffer box_;
  PinnedBuffer pinned_box_;
  // GPU only. An event that was never recorded is no reason to wait.
  std::optional<Event> sent_;   ///< of the sender
  std::optional<Event> taken_;  ///< of the receiver
};

}  // namespace rocmforge
