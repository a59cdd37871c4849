#include <fmt/format.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/available_memory.h"
#include "device/device_faults.h"
#include "device/hip_api.h"
#include "device/hip_runtimes.h"
#include "device/runtime_driver.h"
#include "device/runtimes.h"

namespace rocmforge {

RuntimeLibrary HipApi::open_library() {
  const char* const name = chosen_hip_runtime().library.c_str();
  return RuntimeLibrary(std::span(&name, 1));
}

std::string hip_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000000, version / 100000 % 100, version % 100000);
}

std::string HipApi::describe(int code) const {
  const char* name = error_name(code);
  const char* text = error_text(code);
  if (name == nullptr) {
    return fmt::format("error {}", code);
  }
  return text == nullptr || std::strcmp(name, text) == 0 ? name : fmt::format("{} ({})", name, text);
}

namespace {

// Values of the runtime's enums. They are the same in ROCm 5, 6 and 7.
constexpr int error_no_device = 100;
constexpr int error_invalid_device = 101;
constexpr int attribute_integrated = 16;
constexpr int attribute_l2_bytes = 19;
constexpr int attribute_multiprocessors = 63;
constexpr int attribute_shared_bytes = 74;
constexpr int attribute_warp_size = 87;
constexpr int copy_host_to_device = 1;
constexpr int copy_device_to_host = 2;
constexpr int copy_device_to_device = 3;

/// The properties of a device, whose layout changed with ROCm 6. The offsets are those of gcnArchName.
constexpr std::size_t properties_bytes = 8192;  // the struct has 792 bytes before ROCm 6 and 1472 since
constexpr std::size_t name_offset_r0600 = 1160;
constexpr std::size_t name_offset_before = 396;
constexpr std::size_t name_bytes = 256;

int attribute(const HipApi& api, int index, int which) {
  int value = 0;
  call(api, api.device_attribute, &value, which, index);
  return value;
}

/// "gfx942:sramecc+:xnack-". Only the properties contain the architecture as the runtime sees it: the kernel driver's list
/// under /sys/class/kfd does not show an overridden version, and containers hide it. The function whose name ends in R0600
/// has had one layout since ROCm 6. A library without it is of ROCm 5, where the plain name has the older layout. (In ROCm 6
/// and 7 the plain name still has the older layout, and is not used.) The result must look like an architecture's name.
std::string architecture_of(const HipApi& api, int index) {
  std::array<char, properties_bytes> properties{};
  std::size_t offset = name_offset_r0600;
  if (api.device_properties_r0600) {
    call(api, api.device_properties_r0600, static_cast<void*>(properties.data()), index);
  } else if (api.device_properties) {
    call(api, api.device_properties, static_cast<void*>(properties.data()), index);
    offset = name_offset_before;
  }
  const char* start = properties.data() + offset;
  std::string name(start, ::strnlen(start, name_bytes));
  if (!name.starts_with("gfx")) {
    throw Error(fmt::format("{} does not report the architecture of device hip:{}", api.library.path(), index));
  }
  return name;
}

}  // namespace

DeviceInfo HipApi::device_info(int index) const {
  std::array<char, 256> name{};
  call(*this, device_name, name.data(), static_cast<int>(name.size()) - 1, index);
  std::size_t memory_bytes = 0;
  call(*this, device_memory, &memory_bytes, index);

  DeviceInfo info;
  info.kind = DeviceKind::hip;
  info.vendor_runtime = true;
  info.index = index;
  info.architecture = architecture_of(*this, index);
  info.name = name[0] != '\0' ? name.data() : info.architecture;
  info.compute_units = attribute(*this, index, attribute_multiprocessors);
  info.memory_bytes = static_cast<std::int64_t>(memory_bytes);
  info.integrated = attribute(*this, index, attribute_integrated) != 0 || is_processors_gpu(info.architecture);
  const std::string address = pci_address_of(index);
  info.pci_address = address;
  info.pci_id = amd_pci_id(address);
  info.pci_link = amd_pci_link(address);
  info.firmware = amd_firmware(address);
  info.kernel_driver = amd_kernel_driver();
  info.visible_bytes = amd_visible_bytes(address).value_or(0);
  if (const auto card = info.integrated ? card_memory(index) : std::nullopt) {
    info.set_apart_bytes = card->own_total;
  }
  info.wave_size = attribute(*this, index, attribute_warp_size);
  info.shared_memory_bytes = attribute(*this, index, attribute_shared_bytes);
  info.l2_bytes = attribute(*this, index, attribute_l2_bytes);
  return info;
}

std::string HipApi::pci_address_of(int index) const {
  std::array<char, 64> address{};
  const bool known = pci_address && pci_address(address.data(), static_cast<int>(address.size()) - 1, index) == 0;
  return known ? address.data() : "";
}

std::optional<AmdCardMemory> HipApi::card_memory(int index) const { return amd_card_memory(pci_address_of(index)); }

std::string HipApi::version() const {
  int version = 0;
  call(*this, runtime_version, &version);
  return hip_version_text(version);
}

bool HipApi::means_no_device(int code) {
  return code == error_no_device || code == error_invalid_device;  // ROCm 5 returns the second one when there is no device
}

namespace {

class HipDriver final : public RuntimeDriver<HipApi> {
 public:
  explicit HipDriver(int index) : RuntimeDriver(index) {
    target_ = index;
    watch_amd_faults();  // without it the runtime ends the process as before
  }

  [[nodiscard]] Memory memory() override {
    Memory memory = RuntimeDriver::memory();
    if (const auto card = api_.card_memory(info_.index)) {
      memory.free_bytes =
          amd_free_bytes(memory.free_bytes, memory.total_bytes, *card, info_.integrated, available_memory_bytes());
    }
    return memory;
  }
  [[nodiscard]] std::vector<std::string> libraries_called(std::span<const char* const> names) const override {
    return libraries_beside(chosen_hip_runtime().library, names);
  }
  ModuleHandle load_module(std::span<const std::byte> code_object, std::string_view label) override;

 private:
  void do_copy_to_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) override {
    act(api_.copy, to, from, size_bytes, copy_host_to_device, stream.value);
  }
  void do_copy_to_host(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) override {
    act(api_.copy, to, from, size_bytes, copy_device_to_host, stream.value);
  }
  void do_copy_on_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) override {
    act(api_.copy, to, from, size_bytes, copy_device_to_device, stream.value);
  }
  void do_fill(void* to, std::uint8_t value, std::size_t size_bytes, StreamHandle stream) override {
    act(api_.fill, to, int{value}, size_bytes, stream.value);
  }
  void launch_checked(LoadedFunction& function, const LaunchShape& shape, void* parameter, StreamHandle stream) override;
};

ModuleHandle HipDriver::load_module(std::span<const std::byte> code_object, std::string_view label) {
  ModuleHandle module;
  try {
    act(api_.load_module, &module.value, static_cast<const void*>(code_object.data()));
  } catch (Error& error) {
    throw std::move(error).in(label);
  }
  return module;
}

void HipDriver::launch_checked(LoadedFunction& function, const LaunchShape& shape, void* parameter, StreamHandle stream) {
  check(shape.cluster == 1, "HIP has no clusters of work-groups");
  act(api_.launch_kernel, function.handle, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0], shape.block[1],
      shape.block[2], shape.shared_bytes, stream.value, &parameter, nullptr);
}

}  // namespace

void find_hip(RuntimeReport& report) { find_devices<HipApi>(report); }

std::unique_ptr<Driver> open_hip_driver(int index) { return std::make_unique<HipDriver>(index); }

}  // namespace rocmforge
