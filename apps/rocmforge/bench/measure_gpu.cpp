#include <algorithm>
#include <vector>

#include "bench/kernel_bench.h"
#include "kernels/check/ceiling_args.h"
#include "tensor/random_rows.h"

namespace rocmforge::app {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 30;
constexpr int repetitions = 5;

template <class Work>
double best_seconds(Device& device, const Work& work) {
  Stream& stream = device.stream();
  Event start(device);
  Event end(device);
  double best = 0.0;
  for (int i = 0; i <= repetitions; ++i) {
    stream.record(start);
    work();
    stream.record(end);
    end.synchronize();
    const double seconds = Event::elapsed_seconds(start, end);
    best = i <= 1 ? seconds : std::min(best, seconds);  // the first run loads the code
  }
  return best;
}

double read_bytes_per_second(Device& device) {
  const std::size_t bytes = std::min<std::size_t>(buffer_bytes, static_cast<std::size_t>(device.info().memory_bytes / 8));
  const auto groups = static_cast<std::uint32_t>(device.info().compute_units) * 8;
  const DeviceBuffer from = device.allocate(bytes, "the measurement of reads");
  const DeviceBuffer sums = device.allocate(groups * sizeof(std::uint32_t), "the measurement of reads");
  constexpr Kernel<gpu::CeilingReadArgs> kernel("ceiling", "ceiling_read");
  const gpu::CeilingReadArgs args{from.data(), static_cast<std::int64_t>(bytes / 16), sums.as<std::uint32_t>()};
  const double seconds = best_seconds(device, [&] {
    kernel.launch(device.stream(), {{groups, 1, 1}, {256, 1, 1}, 0}, args);
  });
  return static_cast<double>(bytes) / seconds;
}

double copy_bytes_per_second(Device& device) {
  const std::size_t bytes = std::min<std::size_t>(buffer_bytes, static_cast<std::size_t>(device.info().memory_bytes / 8));
  const DeviceBuffer from = device.allocate(bytes, "the measurement of copies");
  const DeviceBuffer to = device.allocate(bytes, "the measurement of copies");
  const double seconds = best_seconds(device, [&] { device.stream().copy_on_device(to.data(), from.data(), bytes); });
  return 2.0 * static_cast<double>(bytes) / seconds;
}

/// Matrix products of tiles in registers, on random numbers: with zeros the GPU draws less power and is faster than in any
/// model.
double tile_flops_per_second(Device& device) {
  const auto wave = static_cast<std::uint32_t>(device.info().wave_size);
  const auto groups = static_cast<std::uint32_t>(device.info().compute_units) * 2;
  constexpr std::uint32_t threads = 256;
  const std::int64_t waves = std::int64_t{groups} * (threads / wave);
  constexpr std::int64_t products = 8;  // of one round
  constexpr std::int64_t tile_rounds = 4096;
  Random random(1);
  const std::vector<std::byte> numbers = random_rows(DType::f16, waves, 512, random);
  const DeviceBuffer tiles = device.allocate(numbers.size(), "the measurement of products");
  device.upload(tiles.data(), numbers.data(), numbers.size());
  const DeviceBuffer sums = device.allocate(groups * threads * sizeof(float), "the measurement of products");
  constexpr Kernel<gpu::CeilingMatrixArgs> kernel("ceiling", "ceiling_matrix");
  const gpu::CeilingMatrixArgs args{tiles.as<const std::uint16_t>(), tile_rounds, sums.as<float>()};
  const double seconds = best_seconds(device, [&] {
    kernel.launch(device.stream(), {{groups, 1, 1}, {threads, 1, 1}, 0}, args);
  });
  return static_cast<double>(waves * tile_rounds * products) * 2.0 * 16 * 16 * 16 / seconds;
}

/// A large matrix product by the kernels of models, which may call the vendor's library.
double product_flops_per_second(Device& device, const KernelRegistry& registry) {
  constexpr std::int64_t size = 8192;
  Random random(2);
  const std::vector<std::byte> numbers = random_rows(DType::f16, 64, size, random);
  const DeviceBuffer weight = device.allocate(size * size * 2, "the measurement of products");
  for (std::int64_t row = 0; row < size; row += 64) {
    device.upload(weight.data() + row * size * 2, numbers.data(), numbers.size());
  }
  const std::vector<std::byte> inputs = random_rows(DType::f32, 64, size, random);
  const DeviceBuffer x = device.allocate(size * size * 4, "the measurement of products");
  for (std::int64_t row = 0; row < size; row += 64) {
    device.upload(x.data() + row * size * 4, inputs.data(), inputs.size());
  }
  const DeviceBuffer out = device.allocate(size * size * 4, "the measurement of products");
  const Matmul::Spec spec{DType::f16, size, size};
  const MatmulOutput output{DType::f16, weight.data(), size, nullptr, out.as<float>(), size, false};
  ExecutionContext context{nullptr, &device.stream()};
  double fastest = 0.0;
  for (const auto& kernel : registry.all<Matmul>()) {
    // Kernels with a packed layout are measured only by `bench matmul`.
    if (kernel->device() != device.info().kind || is_oracle(kernel->priority()) ||
        !kernel->supports(spec, device.info()).ok || kernel->packed_bytes(spec) > 0) {
      continue;
    }
    const DeviceBuffer workspace = device.allocate(kernel->workspace_bytes(size, size) + 1, "the measurement of products");
    const double seconds = best_seconds(device, [&] {
      kernel->run({x.as<const float>(), size, size, size, std::span(&output, 1), workspace.data()}, context);
    });
    fastest = std::max(fastest, 2.0 * static_cast<double>(size) * size * size / seconds);
  }
  return fastest;
}

}  // namespace

Ceilings measure_gpu_ceilings(Device& device, const KernelRegistry& registry) {
  Ceilings ceilings;
  ceilings.read_bytes_per_second = read_bytes_per_second(device);
  ceilings.copy_bytes_per_second = copy_bytes_per_second(device);
  ceilings.matrix_flops_per_second = std::max(tile_flops_per_second(device), product_flops_per_second(device, registry));
  return ceilings;
}

}  // namespace rocmforge::app
