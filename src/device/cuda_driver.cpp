#include <fmt/format.h>

#include <array>
#include <cstring>

#include "device/cuda_api.h"
#include "device/runtime_driver.h"
#include "device/runtimes.h"

namespace rocmforge {

std::string CudaApi::describe(int code) const {
  const char* name = nullptr;
  const char* text = nullptr;
  error_name(code, &name);
  error_text(code, &text);
  return name == nullptr ? fmt::format("error {}", code) : text == nullptr ? name : fmt::format("{} ({})", name, text);
}

namespace {

// Values of the driver's enums.
constexpr int cuda_error_no_device = 100;
constexpr int cuda_attribute_warp_size = 10;
constexpr int cuda_attribute_multiprocessors = 16;
constexpr int cuda_attribute_l2_bytes = 38;
constexpr int attribute_major = 75;
constexpr int attribute_minor = 76;
constexpr int attribute_shared_bytes_optin = 97;
constexpr int function_max_dynamic_shared_bytes = 8;
constexpr int launch_cluster_dimension = 4;
constexpr int launch_programmatic_serialization = 6;
constexpr int jit_error_log = 5;
constexpr int jit_error_log_bytes = 6;

/// The shared memory of a work-group that needs no function attribute.
constexpr std::int64_t shared_bytes_unasked = 48 << 10;

int attribute(const CudaApi& api, int device, int which) {
  int value = 0;
  call(api, api.device_attribute, &value, which, device);
  return value;
}

}  // namespace

DeviceInfo CudaApi::device_info(int index) const {
  int device = 0;
  call(*this, device_get, &device, index);
  std::array<char, 256> name{};
  call(*this, device_name, name.data(), static_cast<int>(name.size()) - 1, device);
  std::size_t memory_bytes = 0;
  call(*this, device_memory, &memory_bytes, device);

  DeviceInfo info;
  info.kind = DeviceKind::cuda;
  info.vendor_runtime = true;
  info.index = index;
  info.name = name.data();
  info.architecture =
      fmt::format("sm_{}{}", attribute(*this, device, attribute_major), attribute(*this, device, attribute_minor));
  info.compute_units = attribute(*this, device, cuda_attribute_multiprocessors);
  info.memory_bytes = static_cast<std::int64_t>(memory_bytes);
  info.wave_size = attribute(*this, device, cuda_attribute_warp_size);
  info.shared_memory_bytes = attribute(*this, device, attribute_shared_bytes_optin);
  info.l2_bytes = attribute(*this, device, cuda_attribute_l2_bytes);
  return info;
}

std::string CudaApi::version() const {
  int version = 0;
  call(*this, runtime_version, &version);
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

bool CudaApi::means_no_device(int code) { return code == cuda_error_no_device; }

namespace {

class CudaDriver final : public RuntimeDriver<CudaApi> {
 public:
  explicit CudaDriver(int index);
  ~CudaDriver() override { api_.release_context(device_); }

  ModuleHandle load_module(std::span<const std::byte> code_object, std::string_view label) override;
  [[nodiscard]] TensorMap tensor_map(const TensorBoxes& boxes) override;

 private:
  void do_copy_to_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) override {
    act(api_.copy_to_device, to, from, size_bytes, stream.value);
  }
  void do_copy_to_host(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) override {
    act(api_.copy_to_host, to, from, size_bytes, stream.value);
  }
  void do_copy_on_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) override {
    act(api_.copy_on_device, to, from, size_bytes, stream.value);
  }
  void do_fill(void* to, std::uint8_t value, std::size_t size_bytes, StreamHandle stream) override {
    act(api_.fill, to, value, size_bytes, stream.value);
  }
  void launch_checked(LoadedFunction& function, const LaunchShape& shape, void* parameter, StreamHandle stream) override;
  [[nodiscard]] std::size_t argument_bytes(void* function) const override;

  int device_ = 0;
  bool overlaps_ = false;  ///< a kernel can start before its predecessor ends: from compute capability 9.0 on
};

CudaDriver::CudaDriver(int index) : RuntimeDriver(index) {
  call(api_, api_.device_get, &device_, index);
  call(api_, api_.retain_context, &target_, device_);
  overlaps_ = attribute(api_, device_, attribute_major) >= 9 && static_cast<bool>(api_.launch_kernel_ex);
}

TensorMap CudaDriver::tensor_map(const TensorBoxes& boxes) {
  constexpr int uint16 = 1;  // the copy engine moves bits, of whatever type
  constexpr int no_interleave = 0;
  constexpr int swizzle_128 = 3;
  const int promotion = boxes.streamed ? 0 : 3;  // 0: none, 3: 256 bytes
  constexpr int zeros_outside = 0;
  if (!api_.encode_tensor_map) {
    return Driver::tensor_map(boxes);
  }
  TensorMap map{};
  const std::array<unsigned, 4> steps{1, 1, 1, 1};
  call(api_, api_.encode_tensor_map, static_cast<void*>(&map), uint16, 4U, const_cast<void*>(boxes.address),
       boxes.size.data(), boxes.stride_bytes.data(), boxes.box.data(), steps.data(), no_interleave, swizzle_128, promotion,
       zeros_outside);
  return map;
}

ModuleHandle CudaDriver::load_module(std::span<const std::byte> code_object, std::string_view label) {
  std::array<char, 4096> log{};
  std::array options{jit_error_log, jit_error_log_bytes};
  std::array values{static_cast<void*>(log.data()), reinterpret_cast<void*>(log.size() - 1)};
  ModuleHandle module;
  const CudaApi::Scope scope(api_, target_);
  const int code = api_.load_module(&module.value, code_object.data(), static_cast<unsigned>(options.size()), options.data(),
                                    values.data());
  if (code != 0) {
    const std::string_view words = log.data();
    throw Error(fmt::format("{}: {}: {}{}{}", label, api_.load_module.name(), api_.describe(code), words.empty() ? "" : ": ",
                            words));
  }
  return module;
}

std::size_t CudaDriver::argument_bytes(void* function) const {
  std::size_t offset = 0;
  std::size_t size_bytes = 0;
  if (api_.parameter_info) {
    call(api_, api_.parameter_info, function, std::size_t{0}, &offset, &size_bytes);
  }
  return size_bytes;
}

void CudaDriver::launch_checked(LoadedFunction& function, const LaunchShape& shape, void* parameter, StreamHandle stream) {
  const CudaApi::Scope scope(api_, target_);
  if (function.info.static_shared_bytes + shape.shared_bytes > shared_bytes_unasked &&
      shape.shared_bytes > function.dynamic_bytes) {
    call(api_, api_.set_function_attribute, function.handle, function_max_dynamic_shared_bytes,
         static_cast<int>(shape.shared_bytes));
    function.dynamic_bytes = shape.shared_bytes;
  }
  std::array<CudaApi::LaunchAttribute, 2> attributes{};
  unsigned count = 0;
  if (shape.dependent && overlaps_) {
    attributes[count++] = {launch_programmatic_serialization, {std::byte{1}}};
  }
  if (shape.cluster > 1) {
    CudaApi::LaunchAttribute& cluster = attributes[count++];
    cluster.id = launch_cluster_dimension;
    const std::array<unsigned, 3> size{shape.cluster, 1, 1};
    std::memcpy(cluster.value.data(), size.data(), sizeof(size));
  }
  if (count > 0) {
    const CudaApi::LaunchConfig config{shape.grid, shape.block, shape.shared_bytes, stream.value, attributes.data(), count};
    call(api_, api_.launch_kernel_ex, &config, function.handle, &parameter, static_cast<void**>(nullptr));
    return;
  }
  call(api_, api_.launch_kernel, function.handle, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0],
       shape.block[1], shape.block[2], shape.shared_bytes, stream.value, &parameter, nullptr);
}

}  // namespace

void find_cuda(RuntimeReport& report) { find_devices<CudaApi>(report); }

std::unique_ptr<Driver> open_cuda_driver(int index) { return std::make_unique<CudaDriver>(index); }

}  // namespace rocmforge
