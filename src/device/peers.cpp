#include "device/peers.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "device/device_label.h"
#include "device/hip_runtimes.h"
#include "device/runtime_library.h"

namespace rocmforge {
namespace {

/// What both runtimes answer where access is enabled already.
constexpr int error_already_enabled = 704;
/// hipDeviceMallocUncached
constexpr unsigned uncached_memory = 3;

/// The calls of the CUDA driver and of HIP for memory of other devices. Both name a device by its number; CUDA's contexts
/// stand for the devices that they belong to.
class PeerCalls {
 public:
  explicit PeerCalls(DeviceKind kind) : hip_(kind == DeviceKind::hip), library_(open(hip_)) {}

  /// Whether `device` can access the memory of `peer`; if it can, it may from now on.
  [[nodiscard]] bool enable(Device& device, Device& peer) const {
    int able = 0;
    ask(can_access_(&able, device.info().index, peer.info().index), can_access_.name());
    if (able == 0) {
      return false;
    }
    int code = 0;
    if (hip_) {
      const Entry<int(int, unsigned)> enable(library_, "hipDeviceEnablePeerAccess");
      device.driver().with_device([&] { code = enable(peer.info().index, 0U); });
      ask(code == error_already_enabled ? 0 : code, enable.name());
      return true;
    }
    const Entry<int(void**)> current(library_, "cuCtxGetCurrent");
    const Entry<int(void*, unsigned)> enable(library_, "cuCtxEnablePeerAccess");
    void* context = nullptr;
    peer.driver().with_device([&] { code = current(&context); });
    ask(code, current.name());
    device.driver().with_device([&] { code = enable(context, 0U); });
    ask(code == error_already_enabled ? 0 : code, enable.name());
    return true;
  }

  [[nodiscard]] void* allocate_uncached(Device& device, std::size_t size_bytes) const {
    const Entry<int(void**, std::size_t, unsigned)> allocate(library_, "hipExtMallocWithFlags");
    void* data = nullptr;
    int code = 0;
    device.driver().with_device([&] { code = allocate(&data, size_bytes, uncached_memory); });
    ask(code, allocate.name());
    return data;
  }

 private:
  static RuntimeLibrary open(bool hip) {
    const std::array cuda{"libcuda.so.1"};
    if (!hip) {
      return RuntimeLibrary(cuda);
    }
    const char* const name = chosen_hip_runtime().library.c_str();
    return RuntimeLibrary(std::span(&name, 1));
  }
  static void ask(int code, const char* entry) {
    if (code != 0) {
      throw Error(fmt::format("{}: error {}", entry, code));
    }
  }

  bool hip_;
  RuntimeLibrary library_;
  Entry<int(int*, int, int)> can_access_{library_, hip_ ? "hipDeviceCanAccessPeer" : "cuDeviceCanAccessPeer"};
};

}  // namespace

void prepare_for_peers() { ::setenv("CUDA_MODULE_LOADING", "EAGER", 0); }

std::string enable_peer_access(std::span<Device* const> devices) {
  for (Device* const device : devices) {
    if (!device->info().vendor_runtime) {
      continue;  // its memory is this process's
    }
    const PeerCalls calls(device->info().kind);
    for (Device* const peer : devices) {
      if (peer != device && !calls.enable(*device, *peer)) {
        return fmt::format("{} can't access the memory of {}", device_label(device->info()), device_label(peer->info()));
      }
    }
  }
  return "";
}

PeerBuffer::PeerBuffer(Device& device, Place place, std::size_t size_bytes) : device_(&device), size_bytes_(size_bytes) {
  if (place == Place::host) {
    pinned_ = device.allocate_pinned(size_bytes);
    data_ = pinned_.data();
    return;
  }
  const bool uncached = device.info().kind == DeviceKind::hip && device.info().vendor_runtime;
  data_ = static_cast<std::byte*>(uncached ? PeerCalls(DeviceKind::hip).allocate_uncached(device, size_bytes)
                                           : device.driver().allocate(size_bytes));
  try {
    clear();
  } catch (...) {
    device.driver().free(data_);
    throw;
  }
}

PeerBuffer::~PeerBuffer() {
  if (pinned_.data() == nullptr) {
    device_->driver().free(data_);
  }
}

void PeerBuffer::clear() {
  if (pinned_.data() != nullptr) {
    std::memset(data_, 0, size_bytes_);
    return;
  }
  device_->stream().fill(data_, 0, size_bytes_);
  device_->stream().synchronize();
}

PeerFlag::PeerFlag(Device& device) {
  if (device.info().vendor_runtime) {
    pinned_ = device.allocate_pinned(sizeof(std::uint32_t));
    address_ = pinned_.as<std::uint32_t>();
  } else {
    own_ = device.allocate(sizeof(std::uint32_t), "a flag");
    address_ = own_.as<std::uint32_t>();
  }
}

void PeerFlag::set(std::uint32_t value) { std::atomic_ref(*address_).store(value, std::memory_order_release); }

}  // namespace rocmforge
