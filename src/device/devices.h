#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/device.h"

namespace rocmforge {

/// Which memory a part of a model lies in and which kernels compute it: those of the opened device, or of the host beside
/// it.
enum class Side : std::uint8_t { device, host };

constexpr std::string_view name(Side side) { return side == Side::device ? "device" : "cpu"; }

/// The device that computes a model, and the host beside it where the model is split over both; or the GPUs of the ranks
/// that share a model. All outlive their users.
class Devices {
 public:
  // Most models are on one device.
  Devices(Device& device, Device* host = nullptr) : device_(&device), host_(host) {}  // NOLINT(google-explicit-constructor)
  /// The GPUs of the ranks, in their order.
  explicit Devices(std::vector<Device*> of_ranks) : device_(of_ranks.at(0)), of_ranks_(std::move(of_ranks)) {}

  [[nodiscard]] Device& at(Side side) const {
    check(side == Side::device || host_ != nullptr, "a model with parts on the host has a host");
    return side == Side::device ? *device_ : *host_;
  }
  [[nodiscard]] Device* host() const { return host_; }
  /// Those of one of the ranks that share a model. On the CPU all ranks are on the only device.
  [[nodiscard]] Devices of_rank(std::size_t rank) const { return of_ranks_.empty() ? *this : Devices(*of_ranks_.at(rank)); }

 private:
  Device* device_;
  Device* host_ = nullptr;
  std::vector<Device*> of_ranks_;  ///< empty but for ranks that are GPUs
};

}  // namespace rocmforge
