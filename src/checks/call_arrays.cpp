#include "checks/call_arrays.h"

#include <algorithm>
#include <utility>

#include "base/half.h"

namespace rocmforge {
namespace {

/// Of larger inputs, which would have to be copied from a GPU, only the surroundings are looked at.
constexpr std::size_t largest_compared_input = std::size_t{64} << 20;
constexpr std::string_view purpose = "the check of a kernel";

bool all_set(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0xff}; });
}

}  // namespace

std::vector<float> floats_of(DType dtype, std::span<const std::byte> bytes) {
  const std::size_t size = dtype == DType::f32 ? 4 : 2;
  std::vector<float> values(bytes.size() / size);
  if (dtype == DType::f32) {
    std::memcpy(values.data(), bytes.data(), values.size() * size);
    return values;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + size * i, size);
    values[i] = dtype == DType::f16 ? half_to_float(bits) : bfloat16_to_float(bits);
  }
  return values;
}

template <>
DecodeOutput CallArrays::decode_of<float>() {
  return [](std::span<const std::byte> bytes) { return floats_of(DType::f32, bytes); };
}

template <>
DecodeOutput CallArrays::decode_of<std::int32_t>() {
  return [](std::span<const std::byte> bytes) {
    std::vector<float> values(bytes.size() / sizeof(std::int32_t));
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::int32_t value = 0;
      std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
      values[i] = static_cast<float>(value);  // ids are far below 2^24
    }
    return values;
  };
}

std::size_t CallArrays::add(std::string_view name, std::vector<std::byte> bytes, bool output) {
  const std::size_t size_bytes = bytes.size();
  arrays_.push_back({std::string(name), size_bytes, std::move(bytes), output, 0, {}});
  return arrays_.size() - 1;
}

std::size_t CallArrays::add_output(std::string_view name, std::size_t size_bytes, std::int64_t width, DecodeOutput decode) {
  arrays_.push_back({std::string(name), size_bytes, {}, true, width, std::move(decode)});
  return arrays_.size() - 1;
}

Slot<std::byte> CallArrays::output_of(std::string_view name, DType dtype, std::int64_t rows, std::int64_t width) {
  return {add_output(name, row_bytes(dtype, rows * width), width,
                     [dtype](std::span<const std::byte> bytes) { return floats_of(dtype, bytes); })};
}

Slot<float> CallArrays::updated(std::string_view name, const std::vector<float>& values, std::int64_t width) {
  const Slot<std::byte> slot = updated_bytes(name, as_bytes_of(values), width, decode_of<float>());
  return {slot.index};
}

Slot<std::byte> CallArrays::updated_bytes(std::string_view name, std::vector<std::byte> bytes, std::int64_t width,
                                          DecodeOutput decode) {
  const std::size_t index = add(name, std::move(bytes), true);
  arrays_[index].width = width;
  arrays_[index].decode = std::move(decode);
  return {index};
}

void poison(Device& device, ExecutionContext& context, void* to, std::size_t size_bytes) {
  if (device.is_gpu()) {
    context.stream->fill(to, 0xff, size_bytes);
  } else {
    std::memset(to, 0xff, size_bytes);
  }
}

PlacedArrays::PlacedArrays(const CallArrays& arrays, Device& device, ExecutionContext& context,
                           ExecutionContext& host_context)
    : arrays_(&arrays), device_(&device), context_(&context), host_context_(&host_context) {
  for (const CallArrays::Array& array : arrays.all()) {
    DeviceBuffer& memory = memory_.emplace_back(device.allocate(array.size_bytes + 2 * guard_bytes, purpose));
    poison(*device_, *context_, memory.data(), memory.size_bytes());
    if (!array.content.empty()) {
      device.upload(memory.data() + guard_bytes, array.content.data(), array.size_bytes);
    }
  }
}

void* PlacedArrays::scratch(std::size_t size_bytes) {
  return size_bytes == 0 ? nullptr : scratch_.emplace_back(device_->allocate(size_bytes, purpose)).data();
}

void* PlacedArrays::zeros(std::size_t size_bytes) {
  return size_bytes == 0 ? nullptr : kept_.emplace_back(device_->allocate(size_bytes, purpose)).data();
}

const void* PlacedArrays::packed(std::size_t size_bytes, const std::function<void(std::byte*, ExecutionContext&)>& pack) {
  if (!device_->is_gpu()) {
    DeviceBuffer& memory = kept_.emplace_back(device_->allocate(size_bytes, purpose));
    pack(memory.data(), *host_context_);
    return memory.data();
  }
  Device host;
  const DeviceBuffer on_host = host.allocate(size_bytes, purpose);
  pack(on_host.data(), *host_context_);
  DeviceBuffer& memory = kept_.emplace_back(device_->allocate(size_bytes, purpose));
  device_->upload(memory.data(), on_host.data(), size_bytes);
  return memory.data();
}

void PlacedArrays::reset() {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const CallArrays::Array& array = arrays_->all()[i];
    if (array.output && array.content.empty()) {
      poison(*device_, *context_, data(i), array.size_bytes);
    } else if (array.output) {
      device_->upload(data(i), array.content.data(), array.size_bytes);
    }
  }
  for (const DeviceBuffer& memory : scratch_) {
    poison(*device_, *context_, memory.data(), memory.size_bytes());
  }
}

void PlacedArrays::wait() {
  if (device_->is_gpu()) {
    context_->stream->synchronize();
  }
}

std::vector<std::byte> PlacedArrays::read(std::size_t index) const {
  std::vector<std::byte> bytes(arrays_->all()[index].size_bytes);
  device_->download(bytes.data(), data(index), bytes.size());
  return bytes;
}

bool PlacedArrays::holds(std::size_t index, std::span<const std::byte> bytes) const {
  if (!device_->is_gpu()) {
    return bytes.empty() || std::memcmp(data(index), bytes.data(), bytes.size()) == 0;
  }
  // In parts, so that no new memory as large as the array has to be mapped.
  std::vector<std::byte> part(std::min(bytes.size(), std::size_t{16} << 20));
  for (std::size_t at = 0; at < bytes.size(); at += part.size()) {
    const std::size_t size_bytes = std::min(part.size(), bytes.size() - at);
    device_->download(part.data(), data(index) + at, size_bytes);
    if (std::memcmp(part.data(), bytes.data() + at, size_bytes) != 0) {
      return false;
    }
  }
  return true;
}

std::string PlacedArrays::damaged() const {
  std::vector<std::byte> guard(guard_bytes);
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const CallArrays::Array& array = arrays_->all()[i];
    for (const std::byte* place : {memory_[i].data(), data(i) + array.size_bytes}) {
      device_->download(guard.data(), place, guard.size());
      if (!all_set(guard)) {
        return "outside of " + array.name;
      }
    }
    if (!array.output && array.size_bytes <= largest_compared_input && !holds(i, array.content)) {
      return "to the input " + array.name;
    }
  }
  return {};
}

}  // namespace rocmforge
