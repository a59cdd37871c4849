#include "device/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "device/launch_trace.h"

namespace rocmforge {

namespace {

/// Calls `act`. The message of an Error begins with the operation and its number of bytes.
template <class Act>
void sized(fmt::format_string<std::size_t&> what, std::size_t size_bytes, Act&& act) {
  try {
    act();
  } catch (Error& error) {
    throw std::move(error).in(fmt::format(what, size_bytes));
  }
}

}  // namespace

DriverCounters operator-(const DriverCounters& after, const DriverCounters& before) {
  DriverCounters difference;
  difference.copies_to_device = after.copies_to_device - before.copies_to_device;
  difference.bytes_to_device = after.bytes_to_device - before.bytes_to_device;
  difference.copies_to_host = after.copies_to_host - before.copies_to_host;
  difference.bytes_to_host = after.bytes_to_host - before.bytes_to_host;
  difference.copies_on_device = after.copies_on_device - before.copies_on_device;
  difference.fills = after.fills - before.fills;
  difference.launches = after.launches - before.launches;
  difference.graph_launches = after.graph_launches - before.graph_launches;
  difference.synchronizations = after.synchronizations - before.synchronizations;
  difference.allocations = after.allocations - before.allocations;
  return difference;
}

void* Driver::allocate(std::size_t size_bytes) {
  check(size_bytes > 0, "an allocation needs a size");
  void* address = do_allocate(size_bytes);
  ++counters_.allocations;
  return address;
}

// Copies and fills of zero bytes make no call, because not all runtimes accept them.

void Driver::copy_to_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) {
  if (size_bytes == 0) {
    return;
  }
  check(to != nullptr && from != nullptr, "a copy to the device needs two addresses");
  sized("copying {} bytes to the device", size_bytes, [&] { do_copy_to_device(to, from, size_bytes, stream); });
  ++counters_.copies_to_device;
  counters_.bytes_to_device += static_cast<std::int64_t>(size_bytes);
}

void Driver::copy_to_host(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) {
  if (size_bytes == 0) {
    return;
  }
  check(to != nullptr && from != nullptr, "a copy to the host needs two addresses");
  sized("copying {} bytes to the host", size_bytes, [&] { do_copy_to_host(to, from, size_bytes, stream); });
  ++counters_.copies_to_host;
  counters_.bytes_to_host += static_cast<std::int64_t>(size_bytes);
}

void Driver::copy_on_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) {
  if (size_bytes == 0) {
    return;
  }
  check(to != nullptr && from != nullptr, "a copy on the device needs two addresses");
  sized("copying {} bytes on the device", size_bytes, [&] { do_copy_on_device(to, from, size_bytes, stream); });
  ++counters_.copies_on_device;
}

void Driver::fill(void* to, std::uint8_t value, std::size_t size_bytes, StreamHandle stream) {
  if (size_bytes == 0) {
    return;
  }
  check(to != nullptr, "a fill needs an address");
  sized("filling {} bytes", size_bytes, [&] { do_fill(to, value, size_bytes, stream); });
  ++counters_.fills;
}

template <class Wait>
void Driver::wait_for(Wait&& wait) {
  try {
    wait();
  } catch (const Error& error) {
    // The fault of a kernel is reported at the next wait, long after its launch.
    throw Error(last_kernel_.empty() ? std::string(error.what())
                                     : fmt::format("{}; the last launch was kernel {} ({})", error.what(), last_kernel_,
                                                   to_string(last_shape_)));
  }
  ++counters_.synchronizations;
}

void Driver::synchronize(StreamHandle stream) {
  wait_for([&] { do_synchronize(stream); });
}

void Driver::synchronize(EventHandle event) {
  wait_for([&] { do_synchronize(event); });
}

void Driver::launch(GraphHandle graph, StreamHandle stream) {
  check(graph.value != nullptr, "a graph that was never captured cannot be launched");
  launch_trace().note("a recorded step");
  do_launch(graph, stream);
  ++counters_.graph_launches;
  last_kernel_.clear();
}

void Driver::launch(FunctionHandle function, std::string_view kernel, const LaunchShape& shape,
                    std::span<const std::byte> args, StreamHandle stream) {
  const auto empty = [](std::uint32_t extent) { return extent == 0; };
  if (function.value == nullptr || args.empty() || std::ranges::any_of(shape.grid, empty) ||
      std::ranges::any_of(shape.block, empty) || shape.cluster == 0 || shape.grid[0] % shape.cluster != 0) [[unlikely]] {
    fail_check(fmt::format("kernel {}: launched {} with {} bytes of arguments", kernel,
                           function.value == nullptr ? "without a function" : to_string(shape), args.size()));
  }
  launch_trace().note(kernel);
  try {
    do_launch(function, kernel, shape, args, stream);
  } catch (Error& error) {
    throw std::move(error).in(fmt::format("kernel {} ({})", kernel, to_string(shape)));
  }
  ++counters_.launches;
  last_kernel_ = kernel;
  last_shape_ = shape;
}

std::string to_string(const LaunchShape& shape) {
  return fmt::format("grid {}x{}x{}, block {}x{}x{}, {} bytes of dynamic shared memory{}", shape.grid[0], shape.grid[1],
                     shape.grid[2], shape.block[0], shape.block[1], shape.block[2], shape.shared_bytes,
                     shape.cluster > 1 ? fmt::format(", clusters of {}", shape.cluster) : "");
}

TensorMap Driver::tensor_map(const TensorBoxes&) { throw Error(runtime() + " has no bulk tensor copies"); }

}  // namespace rocmforge
