#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>

#include "kernels/check/exact.h"
#include "kernels/check/instructions_args.h"
#include "kernels/check/launch.h"
#include "tensor/random_rows.h"

namespace rocmforge {
namespace {

using namespace check_kernels;

constexpr Kernel<ChainArgs> chain_kernel{"instructions", "check_chain"};
constexpr Kernel<ParameterArgs> parameters_kernel{"instructions", "check_parameters"};

constexpr int links = 200;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::vector<std::uint64_t> random_bits(std::size_t size_bytes) {
  Random random(5);
  std::vector<std::uint64_t> bits(size_bytes / sizeof(std::uint64_t));
  std::ranges::generate(bits, [&random] { return random.bits(); });
  return bits;
}

/// What came back from the device, and how long there and back took.
DeviceCheckResult copied(const std::vector<std::uint64_t>& sent, const void* received, double seconds) {
  const std::size_t size_bytes = sent.size() * sizeof(std::uint64_t);
  DeviceCheckResult result{.problem = {},
                           .elements = static_cast<std::int64_t>(sent.size()),
                           .seconds = seconds,
                           .bytes = 2.0 * static_cast<double>(size_bytes)};
  if (std::memcmp(sent.data(), received, size_bytes) != 0) {
    const auto* words = static_cast<const std::uint64_t*>(received);
    const auto first =
        static_cast<std::size_t>(std::ranges::mismatch(sent, std::span(words, sent.size())).in1 - sent.begin());
    result.problem =
        fmt::format("word {} of {} came back as {:#x}, expected {:#x}", first, sent.size(), words[first], sent[first]);
  }
  return result;
}

DeviceCheckResult check_pinned(Device& device, std::size_t size_bytes) {
  const std::vector<std::uint64_t> sent = random_bits(size_bytes);
  const PinnedBuffer from = device.allocate_pinned(size_bytes);
  const PinnedBuffer to = device.allocate_pinned(size_bytes);
  const DeviceBuffer memory = poisoned<std::byte>(device, size_bytes);
  std::memcpy(from.data(), sent.data(), size_bytes);
  device.stream().synchronize();
  const double start = now();
  device.stream().copy_to_device(memory.data(), from.data(), size_bytes);
  device.stream().copy_to_host(to.data(), memory.data(), size_bytes);
  device.stream().synchronize();
  return copied(sent, to.data(), now() - start);
}

/// Host memory of another kind there and back.
DeviceCheckResult there_and_back(Device& device, const std::vector<std::uint64_t>& sent, const void* from) {
  const std::size_t size_bytes = sent.size() * sizeof(std::uint64_t);
  const DeviceBuffer memory = poisoned<std::byte>(device, size_bytes);
  std::vector<std::uint64_t> received(sent.size());
  device.stream().synchronize();
  const double start = now();
  device.upload(memory.data(), from, size_bytes);
  device.download(received.data(), memory.data(), size_bytes);
  return copied(sent, received.data(), now() - start);
}

DeviceCheckResult check_pageable(Device& device, std::size_t size_bytes) {
  const std::vector<std::uint64_t> sent = random_bits(size_bytes);
  return there_and_back(device, sent, sent.data());
}

/// A mapped file, as that of a model is.
DeviceCheckResult check_mapped(Device& device, std::size_t size_bytes) {
  const std::vector<std::uint64_t> sent = random_bits(size_bytes);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  if (file == nullptr || std::fwrite(sent.data(), 1, size_bytes, file.get()) != size_bytes || std::fflush(file.get()) != 0) {
    throw Error(fmt::format("no temporary file of {} bytes: {}", size_bytes, std::strerror(errno)));
  }
  void* const mapped = ::mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, ::fileno(file.get()), 0);
  if (mapped == MAP_FAILED) {
    throw Error(fmt::format("a temporary file can't be mapped: {}", std::strerror(errno)));
  }
  const auto unmap = [size_bytes](void* memory) { ::munmap(memory, size_bytes); };
  const std::unique_ptr<void, decltype(unmap)> owner(mapped, unmap);
  return there_and_back(device, sent, mapped);
}

DeviceCheckResult check_fill(Device& device, std::size_t size_bytes) {
  const DeviceBuffer memory = poisoned<std::byte>(device, size_bytes);
  device.stream().fill(memory.data() + 1, 0x5a, size_bytes - 2);  // both ends stay
  std::vector<std::uint8_t> expected(size_bytes, 0x5a);
  expected.front() = expected.back() = 0xff;
  return compare_exactly(device, memory, expected);
}

/// A chain of kernels in a graph, run twice: each needs all of the one before. Events around it are in order.
DeviceCheckResult check_graph(Device& device, std::int64_t count) {
  std::vector<std::uint32_t> expected(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] = static_cast<std::uint32_t>(i);
  }
  const DeviceBuffer first = uploaded(device, expected);
  const DeviceBuffer second = poisoned<std::uint32_t>(device, expected.size());
  Stream& stream = device.stream();
  const auto record = [&] {
    for (int link = 0; link < links; ++link) {
      const DeviceBuffer& from = link % 2 == 0 ? first : second;
      const DeviceBuffer& to = link % 2 == 0 ? second : first;
      chain_kernel.launch(stream, one_thread_each(count), {from.as<const std::uint32_t>(), to.as<std::uint32_t>(), count});
    }
  };
  const Graph graph = stream.capture(record);
  Event start(device);
  Event end(device);
  for (int run = 0; run < 2; ++run) {
    stream.record(start);
    stream.launch(graph);
    stream.record(end);
    end.synchronize();
    for (int link = 0; link < links; ++link) {
      std::ranges::for_each(expected, [](std::uint32_t& value) { value = value * ChainArgs::factor + ChainArgs::term; });
      std::ranges::reverse(expected);
    }
  }
  DeviceCheckResult result = compare_exactly(device, first, expected);
  const double seconds = Event::elapsed_seconds(start, end);
  if (result.problem.empty() && !(seconds >= 0.0 && seconds < 60.0)) {
    result.problem = fmt::format("the events around it are {} s apart", seconds);
  }
  result.seconds = seconds / links;
  return result;
}

DeviceCheckResult check_parameters(Device& device) {
  ParameterArgs args{};
  std::vector<std::uint32_t> expected;
  for (std::uint32_t& word : args.words) {
    word = 0x9E3779B9u * static_cast<std::uint32_t>(expected.size() + 1);
    expected.push_back(word);
  }
  const DeviceBuffer out = poisoned<std::uint32_t>(device, expected.size());
  args.out = out.as<std::uint32_t>();
  parameters_kernel.launch(device.stream(), one_thread_each(ParameterArgs::count), args);
  return compare_exactly(device, out, expected);
}

}  // namespace

std::vector<DeviceCheck> runtime_checks(const DeviceInfo& info) {
  const std::size_t size_bytes = info.vendor_runtime ? std::size_t{64} << 20 : std::size_t{64} << 10;
  const std::int64_t count = info.vendor_runtime ? std::int64_t{1} << 16 : 300;
  const std::string size = info.vendor_runtime ? "64 MiB" : "64 KiB";
  const auto one = [](std::string_view name, std::string shape, std::function<DeviceCheckResult(Device&)> run) {
    return DeviceCheck{runtime_step, name, std::move(shape), std::move(run)};
  };
  return {
      one("copies", "pinned memory, " + size, [size_bytes](Device& device) { return check_pinned(device, size_bytes); }),
      one("copies", "pageable memory, " + size, [size_bytes](Device& device) { return check_pageable(device, size_bytes); }),
      one("copies", "a mapped file, " + size, [size_bytes](Device& device) { return check_mapped(device, size_bytes); }),
      one("fills", size, [size_bytes](Device& device) { return check_fill(device, size_bytes); }),
      one("graph", fmt::format("{} kernels in a chain", links),
          [count](Device& device) { return check_graph(device, count); }),
      one("parameters", fmt::format("{} bytes", sizeof(ParameterArgs)), check_parameters)};
}

}  // namespace rocmforge
