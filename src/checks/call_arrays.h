#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "ops/registry.h"
#include "tensor/dtype.h"

namespace rocmforge {

/// An array of a CallArrays; an empty one stands for a null pointer.
template <class T>
struct Slot {
  std::size_t index = std::numeric_limits<std::size_t>::max();
  [[nodiscard]] bool empty() const { return index == std::numeric_limits<std::size_t>::max(); }
};

/// How the bytes of an output become numbers that are compared.
using DecodeOutput = std::function<std::vector<float>(std::span<const std::byte>)>;

/// The inputs and outputs of one call, in host memory, from which every place where the call runs gets a copy.
class CallArrays {
 public:
  struct Array {
    std::string name;
    std::size_t size_bytes = 0;
    std::vector<std::byte> content;  ///< empty: every bit is set before a call
    bool output = false;
    std::int64_t width = 0;  ///< numbers of a row of an output, which are compared together
    DecodeOutput decode;

    [[nodiscard]] bool compared() const { return output && decode; }
  };

  template <class T>
  Slot<T> input(std::string_view name, const std::vector<T>& values) {
    return {add(name, as_bytes_of(values), false)};
  }
  /// Elements of `dtype`, as they are stored.
  Slot<std::byte> stored(std::string_view name, std::vector<std::byte> bytes) {
    return {add(name, std::move(bytes), false)};
  }
  /// [rows, width] of T, f32 or i32, poisoned before each call.
  template <class T>
  Slot<T> output(std::string_view name, std::int64_t rows, std::int64_t width) {
    return {add_output(name, static_cast<std::size_t>(rows * width) * sizeof(T), width, decode_of<T>())};
  }
  Slot<std::byte> output_of(std::string_view name, DType dtype, std::int64_t rows, std::int64_t width);
  /// An output that a call also reads: it has these values before each call.
  Slot<float> updated(std::string_view name, const std::vector<float>& values, std::int64_t width);
  Slot<std::byte> updated_bytes(std::string_view name, std::vector<std::byte> bytes, std::int64_t width,
                                DecodeOutput decode);
  /// An input that a call may overwrite with anything: it has these values before each call and is not compared.
  Slot<float> used_up(std::string_view name, const std::vector<float>& values) {
    return {add(name, as_bytes_of(values), true)};
  }

  [[nodiscard]] const std::vector<Array>& all() const { return arrays_; }

 private:
  template <class T>
  static std::vector<std::byte> as_bytes_of(const std::vector<T>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    if (!bytes.empty()) {
      std::memcpy(bytes.data(), values.data(), bytes.size());
    }
    return bytes;
  }
  template <class T>
  static DecodeOutput decode_of();
  std::size_t add(std::string_view name, std::vector<std::byte> bytes, bool output);
  std::size_t add_output(std::string_view name, std::size_t size_bytes, std::int64_t width, DecodeOutput decode);

  std::vector<Array> arrays_;
};

/// Elements of an f32, f16 or bf16 array as floats.
std::vector<float> floats_of(DType dtype, std::span<const std::byte> bytes);

/// Sets every bit of `size_bytes` of the device's memory, which makes NaN of floating-point numbers. On a GPU this is put on
/// the context's stream.
void poison(Device& device, ExecutionContext& context, void* to, std::size_t size_bytes);

/// The arrays of a call in the memory of one device, with what one kernel needs beside them. Each array has memory of its
/// own between guard bytes.
class PlacedArrays {
 public:
  /// `context` runs on `device`; both and the arrays must outlive the placement. `host_context` packs weights.
  PlacedArrays(const CallArrays& arrays, Device& device, ExecutionContext& context, ExecutionContext& host_context);

  template <class T>
  [[nodiscard]] T* at(Slot<T> slot) const {
    return slot.empty() ? nullptr : reinterpret_cast<T*>(data(slot.index));
  }
  /// Memory that is poisoned before each call; null for none.
  void* scratch(std::size_t size_bytes);
  /// Memory that is zero before the first call; null for none.
  void* zeros(std::size_t size_bytes);
  /// A weight in a kernel's layout: `size_bytes` that pack(memory, context) writes on the host.
  const void* packed(std::size_t size_bytes, const std::function<void(std::byte*, ExecutionContext&)>& pack);

  /// Gives the outputs and the scratch memory their state before a call. On a GPU this is put on its stream.
  void reset();
  /// Waits for the work of a call.
  void wait();
  [[nodiscard]] std::vector<std::byte> read(std::size_t index) const;
  /// Whether an array has these bytes.
  [[nodiscard]] bool holds(std::size_t index, std::span<const std::byte> bytes) const;
  /// The name of an array outside of which bytes have changed, or of an input that has; empty when there is none.
  [[nodiscard]] std::string damaged() const;

  [[nodiscard]] const CallArrays& arrays() const { return *arrays_; }
  [[nodiscard]] ExecutionContext& context() const { return *context_; }
  [[nodiscard]] Device& device() const { return *device_; }

 private:
  static constexpr std::size_t guard_bytes = 256;

  [[nodiscard]] std::byte* data(std::size_t index) const { return memory_[index].data() + guard_bytes; }

  const CallArrays* arrays_;
  Device* device_;
  ExecutionContext* context_;
  ExecutionContext* host_context_;
  std::vector<DeviceBuffer> memory_;
  std::vector<DeviceBuffer> scratch_;
  std::vector<DeviceBuffer> kept_;
};

}  // namespace rocmforge
