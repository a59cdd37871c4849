#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/half.h"
#include "kernels/check/exact.h"
#include "kernels/check/instructions_args.h"
#include "kernels/check/launch.h"
#include "tensor/random_rows.h"

namespace rocmforge {
namespace {

using namespace check_kernels;

constexpr Kernel<LaneArgs> lanes_kernel{"instructions", "check_lanes"};
constexpr Kernel<DotArgs> dots_kernel{"instructions", "check_dots"};
constexpr Kernel<TileArgs> byte_tiles_kernel{"instructions", "check_byte_tiles"};
constexpr Kernel<TileArgs> half_tiles_kernel{"instructions", "check_half_tiles"};
constexpr Kernel<TileArgs> bfloat_tiles_kernel{"instructions", "check_bfloat_tiles"};
constexpr Kernel<SubnormalArgs> subnormals_kernel{"instructions", "check_subnormals"};
constexpr Kernel<ScalarArgs> scalars_kernel{"instructions", "check_scalars"};
constexpr Kernel<SharedArgs> shared_kernel{"instructions", "check_shared"};
constexpr Kernel<ArrivalArgs> arrivals_kernel{"instructions", "check_arrivals"};

constexpr int threads = 256;
constexpr LaunchShape one_group{{1, 1, 1}, {threads, 1, 1}};

LaunchShape one_wave(const Device& device) {
  return {{1, 1, 1}, {static_cast<std::uint32_t>(device.info().wave_size), 1, 1}};
}

std::vector<std::uint32_t> random_words(std::size_t count) {
  Random random(7);
  std::vector<std::uint32_t> words(count);
  std::ranges::generate(words, [&random] { return static_cast<std::uint32_t>(random.bits()); });
  return words;
}

int signed_byte(std::uint32_t word, int i) { return static_cast<std::int8_t>(word >> 8 * i); }

DeviceCheckResult check_lanes(Device& device) {
  Random random(3);
  std::vector<std::int32_t> in(threads);
  std::ranges::generate(in, [&random] { return random.below(1 << 20); });
  const std::size_t wave = static_cast<std::size_t>(device.info().wave_size);
  std::vector<std::int32_t> expected;
  for (const int mask : LaneArgs::masks) {
    for (std::size_t t = 0; t < in.size(); ++t) {
      const auto other = static_cast<std::size_t>(mask);
      expected.push_back(in[other < wave ? t ^ other : t]);
    }
  }
  std::vector<std::int32_t> sums, most, fifth;
  for (std::size_t t = 0; t < in.size(); ++t) {
    const auto lanes = std::span(in).subspan(t / wave * wave, wave);
    sums.push_back(0);
    std::ranges::for_each(lanes, [&](std::int32_t value) { sums.back() += value; });
    most.push_back(*std::ranges::max_element(lanes));
    fifth.push_back(lanes[5]);
  }
  for (const auto& more : {sums, most, fifth}) {
    expected.insert(expected.end(), more.begin(), more.end());
  }
  const DeviceBuffer values = uploaded(device, in);
  const DeviceBuffer out = poisoned<std::int32_t>(device, expected.size());
  lanes_kernel.launch(device.stream(), one_group, {values.as<const std::int32_t>(), out.as<std::int32_t>()});
  return compare_exactly(device, out, expected);
}

DeviceCheckResult check_dots(Device& device) {
  constexpr int count = 4096;
  std::vector<std::uint32_t> a = random_words(2 * count);
  const std::vector<std::uint32_t> b(a.begin() + count, a.end());
  a.resize(count);
  a[0] = 0x80808080u;  // the sum of the largest products
  std::vector<std::int32_t> expected;
  for (int i = 0; i < count; ++i) {
    expected.push_back(i);
    for (int byte = 0; byte < 4; ++byte) {
      expected.back() +=
          signed_byte(a[static_cast<std::size_t>(i)], byte) * signed_byte(b[static_cast<std::size_t>(i)], byte);
    }
  }
  const DeviceBuffer left = uploaded(device, a);
  const DeviceBuffer right = uploaded(device, b);
  const DeviceBuffer out = poisoned<std::int32_t>(device, count);
  dots_kernel.launch(device.stream(), one_thread_each(count),
                     {left.as<const std::uint32_t>(), right.as<const std::uint32_t>(), out.as<std::int32_t>(), count, 0});
  return compare_exactly(device, out, expected);
}

DeviceCheckResult check_byte_tiles(Device& device) {
  constexpr std::size_t words = TileArgs::byte_k / 4;
  std::vector<std::uint32_t> a = random_words(2 * 16 * words);
  const std::vector<std::uint32_t> b(a.begin() + 16 * words, a.end());
  a.resize(16 * words);
  std::vector<std::int32_t> expected;
  for (std::size_t i = 0; i < 256; ++i) {
    std::int32_t sum = 0;
    for (std::size_t k = 0; k < TileArgs::byte_k; ++k) {
      const int byte = static_cast<int>(k % 4);
      sum += signed_byte(a[i / 16 * words + k / 4], byte) * signed_byte(b[i % 16 * words + k / 4], byte);
    }
    expected.push_back(sum);
  }
  const DeviceBuffer left = uploaded(device, a);
  const DeviceBuffer right = uploaded(device, b);
  const DeviceBuffer out = poisoned<std::int32_t>(device, 256);
  byte_tiles_kernel.launch(device.stream(), one_wave(device), {left.data(), right.data(), out.data()});
  return compare_exactly(device, out, expected);
}

/// Small integers, whose products and sums are exact in both types.
DeviceCheckResult check_tiles(Device& device, const Kernel<TileArgs>& kernel, std::uint16_t (*stored)(float)) {
  constexpr std::size_t k = TileArgs::half_k;
  Random random(11);
  std::vector<float> numbers(2 * 16 * k);
  std::ranges::generate(numbers, [&random] { return static_cast<float>(random.below(33) - 16); });
  std::vector<std::uint16_t> bits(numbers.size());
  std::ranges::transform(numbers, bits.begin(), stored);
  std::vector<float> product;
  for (std::size_t i = 0; i < 256; ++i) {
    float sum = 0.0f;
    for (std::size_t at = 0; at < k; ++at) {
      sum += numbers[i / 16 * k + at] * numbers[16 * k + i % 16 * k + at];
    }
    product.push_back(2.0f * sum);
  }
  std::vector<float> expected;
  for (int way = 0; way < TileArgs::ways; ++way) {
    expected.insert(expected.end(), product.begin(), product.end());
  }
  const DeviceBuffer operands = uploaded(device, bits);
  const DeviceBuffer out = poisoned<float>(device, expected.size());
  kernel.launch(device.stream(), one_wave(device), {operands.data(), operands.data() + 16 * k * 2, out.data()});
  return compare_exactly(device, out, expected);
}

DeviceCheckResult check_subnormals(Device& device) {
  constexpr float factor = 0.5f;
  const float least = std::numeric_limits<float>::denorm_min();
  std::vector<float> in;
  for (const float value : {0.0f, least, 2.0f * least, 12345.0f * least, std::numeric_limits<float>::min(), 1e-39f, 3e-8f,
                            7e-8f, 6.1e-5f, 5.9e-5f, 2.98e-8f, 1.5f}) {
    in.push_back(value);
    in.push_back(-value);
  }
  std::vector<std::uint16_t> halves;
  for (std::size_t i = 0; i < in.size(); ++i) {
    halves.push_back(static_cast<std::uint16_t>(i * 43 + 1));  // below 0x0400: subnormal
  }
  std::vector<float> expected;
  std::ranges::for_each(in, [&](float value) { expected.push_back(value * factor); });
  std::ranges::for_each(in, [&](float value) { expected.push_back(value + value); });
  std::ranges::for_each(halves, [&](std::uint16_t value) { expected.push_back(half_to_float(value)); });
  std::ranges::for_each(in, [&](float value) { expected.push_back(half_to_float(float_to_half(value))); });
  std::ranges::for_each(in, [&](float value) { expected.push_back(bfloat16_to_float(float_to_bfloat16(value))); });
  const DeviceBuffer values = uploaded(device, in);
  const DeviceBuffer bits = uploaded(device, halves);
  const DeviceBuffer out = poisoned<float>(device, expected.size());
  subnormals_kernel.launch(device.stream(), one_group,
                           {values.as<const float>(), bits.as<const std::uint16_t>(), out.as<float>(),
                            static_cast<std::int32_t>(in.size()), factor});
  return compare_exactly(device, out, expected);
}

DeviceCheckResult check_scalars(Device& device, std::int32_t rounds) {
  constexpr std::uint32_t seed = 2024;
  std::vector<std::uint32_t> expected(threads);
  for (std::uint32_t own = 0; own < threads; ++own) {
    expected[own] = own;
  }
  std::uint32_t scalar = seed;
  for (std::int32_t round = 0; round < rounds; ++round) {
    const std::uint32_t next = scalar * ChainArgs::factor + ChainArgs::term;
    for (std::uint32_t own = 0; own < threads; ++own) {
      const std::uint32_t value = expected[own] * 5u + scalar;
      expected[own] = value ^ (value > next ? own + 1u : next);
    }
    scalar = next ^ next >> 13;
  }
  const DeviceBuffer out = poisoned<std::uint32_t>(device, threads);
  scalars_kernel.launch(device.stream(), one_group, {out.as<std::uint32_t>(), seed, rounds});
  return compare_exactly(device, out, expected);
}

DeviceCheckResult check_shared(Device& device, std::int32_t rounds) {
  std::vector<std::uint32_t> expected(threads);
  for (std::uint32_t own = 0; own < threads; ++own) {
    expected[own] = own;
  }
  for (std::int32_t round = 0; round < rounds; ++round) {
    std::vector<std::uint32_t> next(threads);
    for (std::size_t own = 0; own < threads; ++own) {
      next[own] = expected[(own + SharedArgs::step) % threads] * 3u + 1u;
    }
    expected = next;
  }
  const DeviceBuffer out = poisoned<std::uint32_t>(device, threads);
  shared_kernel.launch(device.stream(), one_group, {out.as<std::uint32_t>(), rounds, 0});
  return compare_exactly(device, out, expected);
}

DeviceCheckResult check_arrivals(Device& device, std::uint32_t groups, std::uint32_t rounds) {
  const DeviceBuffer done = device.allocate(sizeof(std::uint32_t), device_check_purpose);
  const DeviceBuffer parts = poisoned<std::uint32_t>(device, std::size_t{groups} * threads);
  const DeviceBuffer sums = device.allocate(rounds * sizeof(std::uint32_t), device_check_purpose);
  std::vector<std::uint32_t> expected;
  const LaunchShape shape{{groups, 1, 1}, {threads, 1, 1}};
  for (std::uint32_t round = 0; round < rounds; ++round) {
    arrivals_kernel.launch(
        device.stream(), shape,
        {done.as<std::uint32_t>(), parts.as<std::uint32_t>(), sums.as<std::uint32_t>() + round, round, 0});
    std::uint32_t of_groups = 0;
    for (std::uint32_t group = 0; group < groups; ++group) {
      of_groups += round + group;
    }
    expected.push_back(threads * of_groups);
  }
  return compare_exactly(device, sums, expected);
}

}  // namespace

std::vector<DeviceCheck> instruction_checks(const DeviceInfo& info) {
  const std::int32_t rounds = info.vendor_runtime ? 1'000'000 : 200;
  const std::int32_t barriers = info.vendor_runtime ? 10'000 : 20;
  const std::uint32_t launches = info.vendor_runtime ? 10'000 : 2;
  const std::uint32_t groups = info.vendor_runtime ? 8 * static_cast<std::uint32_t>(std::max(info.compute_units, 1)) : 4;
  const auto one = [](std::string_view name, std::string shape, std::function<DeviceCheckResult(Device&)> run) {
    return DeviceCheck{instructions_step, name, std::move(shape), std::move(run)};
  };
  return {one("lanes", "exchanges and sums of waves", check_lanes),
          one("byte_products", "dot products of four bytes", check_dots),
          one("byte_tiles", "16 x 16 x 64 bytes", check_byte_tiles),
          one("tiles", "16 x 16 x 16 halves",
              [](Device& device) { return check_tiles(device, half_tiles_kernel, float_to_half); }),
          one("tiles", "16 x 16 x 16 bfloat16",
              [](Device& device) { return check_tiles(device, bfloat_tiles_kernel, float_to_bfloat16); }),
          one("small_numbers", "subnormal floats and halves", check_subnormals),
          one("scalar_registers", fmt::format("{} rounds", rounds),
              [rounds](Device& device) { return check_scalars(device, rounds); }),
          one("shared_memory", fmt::format("{} barriers", 2 * barriers),
              [barriers](Device& device) { return check_shared(device, barriers); }),
          one("arrivals", fmt::format("{} times {} work-groups", launches, groups),
              [groups, launches](Device& device) { return check_arrivals(device, groups, launches); })};
}

}  // namespace rocmforge
