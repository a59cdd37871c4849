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

/// The device that computes a model, and the host beside it where the model is split over both; or one device for each of
/// the ranks of a model, with the host beside them all. All outlive their users.
class Devices {
 public:
  // Most models are on one device.
  Devices(Device& device, Device* host = nullptr) : device_(&device), host_(host) {}  // NOLINT(google-explicit-constructor)
  /// The devices of the ranks, in their order.
  explicit Devices(std::vector<Device*> of_ranks, Device* host = nullptr)
      : device_(of_ranks.at(0)), host_(host), of_ranks_(std::move(of_ranks)) {}

  [[nodiscard]] Device& at(Side side) const {
    check(side == Side::device || host_ != nullptr, "a model with parts on the host has a host");
    return side == Side::device ? *device_ : *host_;
  }
  [[nodiscard]] Device* host() const { return host_; }
  /// Those of one of the ranks of a model. On the CPU all ranks that share its layers are on the only device.
  [[nodiscard]] Devices of_rank(std::size_t rank) const {
    return of_ranks_.empty() ? *this : Devices(*of_ranks_.at(rank), host_);
  }

 private:
  Device* device_;
  Device* host_ = nullptr;
  std::vector<Device*> of_ranks_;  ///< empty but for ranks with devices of their own
};

}  // namespace rocmforge
