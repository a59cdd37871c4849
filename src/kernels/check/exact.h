#pragma once

// What the checks of a device share.

#include <fmt/format.h>

#include <cstring>
#include <span>
#include <vector>

#include "kernels/check/device_checks.h"

namespace rocmforge::check_kernels {

constexpr std::string_view device_check_purpose = "the check of a device";

template <class T>
DeviceBuffer uploaded(Device& device, const std::vector<T>& values) {
  DeviceBuffer memory = device.allocate(values.size() * sizeof(T), device_check_purpose);
  device.upload(memory.data(), values.data(), values.size() * sizeof(T));
  return memory;
}

/// `count` numbers of T whose every bit is set.
template <class T>
DeviceBuffer poisoned(Device& device, std::size_t count) {
  DeviceBuffer memory = device.allocate(count * sizeof(T), device_check_purpose);
  device.stream().fill(memory.data(), 0xff, count * sizeof(T));
  return memory;
}

/// Compares the bits of numbers in device memory. Waits for the stream.
template <class T>
DeviceCheckResult compare_exactly(Device& device, const DeviceBuffer& from, const std::vector<T>& expected) {
  std::vector<T> actual(expected.size());
  device.stream().synchronize();
  device.download(actual.data(), from.data(), actual.size() * sizeof(T));
  DeviceCheckResult result{.problem = {}, .elements = static_cast<std::int64_t>(expected.size())};
  std::size_t wrong = 0;
  std::size_t first = 0;
  for (std::size_t i = expected.size(); i-- > 0;) {
    if (std::memcmp(&actual[i], &expected[i], sizeof(T)) != 0) {
      ++wrong;
      first = i;
    }
  }
  if (wrong > 0) {
    result.problem = fmt::format("{} of {} numbers are wrong, the first is number {}: {}, expected {}", wrong,
                                 expected.size(), first, actual[first], expected[first]);
  }
  return result;
}

}  // namespace rocmforge::check_kernels
