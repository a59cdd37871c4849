#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "device/device.h"

namespace rocmforge {

/// To be called before the first GPU of several is opened, by one thread. Kernels are then loaded with their modules: one
/// that is loaded at its first launch may wait for all kernels of its GPU, and one of these for another GPU.
void prepare_for_peers();

/// Lets kernels of each of these GPUs access the memory of all others, that is allocated from now on or was before. Returns
/// why that can't be, "cuda:0 can't access the memory of cuda:1"; empty where it can.
std::string enable_peer_access(std::span<Device* const> devices);

/// Zeroed memory that kernels of other GPUs may write while a GPU's own kernels read it: its memory, or pinned memory of the
/// host, which GPUs reach that can't access each other's. AMD's own memory bypasses the caches then: else a kernel might see
/// such writes only after its end. Throws Error where there is not enough. Not moved.
class PeerBuffer {
 public:
  enum class Place { device, host };
  PeerBuffer(Device& device, Place place, std::size_t size_bytes);
  ~PeerBuffer();
  PeerBuffer(const PeerBuffer&) = delete;
  PeerBuffer& operator=(const PeerBuffer&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size_bytes() const { return size_bytes_; }
  /// Makes it zero again. Not while a kernel uses it.
  void clear();

 private:
  Device* device_;
  PinnedBuffer pinned_;        ///< Place::host
  std::byte* data_ = nullptr;  ///< there, or memory of the device
  std::size_t size_bytes_;
};

/// A number that the host sets while kernels of these GPUs read it.
class PeerFlag {
 public:
  explicit PeerFlag(Device& device);

  void set(std::uint32_t value);
  [[nodiscard]] const std::uint32_t* address() const { return address_; }

 private:
  PinnedBuffer pinned_;
  DeviceBuffer own_;  ///< where the device's memory is the host's: an emulated GPU
  std::uint32_t* address_ = nullptr;
};

}  // namespace rocmforge
