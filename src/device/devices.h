#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "device/device.h"

namespace rocmforge {

/// Which memory a part of a model lies in and which kernels compute it: those of the opened device, or of the host beside
/// it.
enum class Side : std::uint8_t { device, host };

constexpr std::string_view name(Side side) { return side == Side::device ? "device" : "cpu"; }

/// The device that computes a model, and the host beside it where the model is split over both. Both outlive their users.
class Devices {
 public:
  // Most models are on one device.
  Devices(Device& device, Device* host = nullptr) : device_(&device), host_(host) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] Device& at(Side side) const {
    check(side == Side::device || host_ != nullptr, "a model with parts on the host has a host");
    return side == Side::device ? *device_ : *host_;
  }
  [[nodiscard]] Device* host() const { return host_; }

 private:
  Device* device_;
  Device* host_;
};

}  // namespace rocmforge
