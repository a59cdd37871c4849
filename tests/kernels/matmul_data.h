#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/matmul/kernels.h"
#include "tensor/quant/dequantize.h"
#include "tensor/quant/formats.h"

/// Weights, inputs and expected results for the tests of the matrix products.
namespace rocmforge::matmul_test {

inline const std::vector<DType> all_formats = {
    DType::f32,    DType::f16,     DType::bf16,  DType::q4_0,  DType::q4_1,  DType::q5_0,    DType::q5_1,
    DType::q8_0,   DType::q2_k,    DType::q3_k,  DType::q4_k,  DType::q5_k,  DType::q6_k,    DType::iq4_nl,
    DType::iq4_xs, DType::mxfp4,   DType::nvfp4, DType::iq1_s, DType::iq1_m, DType::iq2_xxs, DType::iq2_xs,
    DType::iq2_s,  DType::iq3_xxs, DType::iq3_s, DType::tq1_0, DType::tq2_0};

inline bool is_quantised(DType type) { return info(type).block_elems > 1; }

/// [n, k] rows as a file stores them: random codes, scales of a size that models have.
inline std::vector<std::byte> random_weight(DType type, std::int64_t n, std::int64_t k, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> scale(0.002f, 0.02f);
  std::normal_distribution<float> value(0.0f, 0.5f);
  std::vector<std::byte> bytes(row_bytes(type, k) * static_cast<std::size_t>(n));
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random());
  }
  Formats::visit(type, [&]<class Block>(Block*) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(Block)) {
      Block block;
      std::memcpy(&block, bytes.data() + at, sizeof block);
      if constexpr (has_block_scale<Block>) {
        set_block_scale(block, half((random() % 2 == 0 ? 1.0f : -1.0f) * scale(random)));
      }
      if constexpr (requires { block.minimum; }) {
        block.minimum = half(-8.0f * scale(random));
      }
      if constexpr (requires { block.minimum_scale; }) {
        block.minimum_scale = half(scale(random));
      }
      if constexpr (requires { block.exponent; }) {
        block.exponent = static_cast<std::uint8_t>(118 + random() % 6);
      }
      if constexpr (Block::elems == 1) {
        block.value = static_cast<decltype(block.value)>(value(random));
      }
      std::memcpy(bytes.data() + at, &block, sizeof block);
    }
  });
  return bytes;
}

inline std::vector<float> random_input(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-1.0f, 1.0f);
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& one : x) {
    one = value(random);
  }
  return x;
}

inline std::vector<float> dequantised(DType type, const std::vector<std::byte>& weight, std::int64_t n, std::int64_t k) {
  std::vector<float> values(static_cast<std::size_t>(n * k));
  for (std::int64_t row = 0; row < n; ++row) {
    dequantize_row(type, weight.data() + row_bytes(type, k) * static_cast<std::size_t>(row), values.data() + row * k, k);
  }
  return values;
}

/// A row of activations after the rounding that is specified for kernels: 8 bits, one scale for 32 columns.
inline std::vector<float> rounded_to_8_bits(const std::vector<float>& x) {
  std::vector<float> result(x.size());
  for (std::size_t block = 0; block < x.size(); block += 32) {
    float largest = 0;
    for (std::size_t i = block; i < block + 32; ++i) {
      largest = std::max(largest, std::fabs(x[i]));
    }
    for (std::size_t i = block; i < block + 32 && largest > 0; ++i) {
      result[i] = largest / 127.0f * std::nearbyint(x[i] * (127.0f / largest));
    }
  }
  return result;
}

/// A row of activations after the kernel's rounding for a weight of this type.
inline std::vector<float> as_read_by(const MatmulKernel& kernel, DType type, const std::vector<float>& x) {
  if (is_quantised(type)) {
    return rounded_to_8_bits(x);
  }
  std::vector<float> result = x;
  for (float& value : result) {
    value = kernel.name() == "cpu_avx512_bf16" && type == DType::bf16 ? static_cast<float>(bfloat16(value)) : value;
  }
  return result;
}

struct Expected {
  std::vector<double> y;          ///< [tokens, n]
  std::vector<double> magnitude;  ///< the same sums of absolute values, the measure of rounding errors
};

inline Expected expected_product(const std::vector<float>& x, const std::vector<float>& weight, std::int64_t tokens,
                                 std::int64_t n, std::int64_t k) {
  Expected expected;
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t row = 0; row < n; ++row) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double product =
            double{x[static_cast<std::size_t>(t * k + i)]} * double{weight[static_cast<std::size_t>(row * k + i)]};
        sum += product;
        magnitude += std::fabs(product);
      }
      expected.y.push_back(sum);
      expected.magnitude.push_back(magnitude);
    }
  }
  return expected;
}

/// Memory aligned as weights and workspaces must be.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t size) : storage_(size + 63) {}
  [[nodiscard]] std::byte* data() {
    return storage_.data() + (64 - reinterpret_cast<std::uintptr_t>(storage_.data()) % 64) % 64;
  }

 private:
  std::vector<std::byte> storage_;
};

/// A weight packed for one kernel.
class PackedWeight {
 public:
  PackedWeight(const MatmulKernel& kernel, DType type, const std::vector<std::byte>& rows, std::int64_t n, std::int64_t k,
               ExecutionContext& context)
      : type_(type), n_(n), rows_(rows.data()), bytes_(kernel.packed_bytes({type, n, k})) {
    packed_ = kernel.packed_bytes({type, n, k}) > 0;
    kernel.pack({type, n, k}, rows.data(), bytes_.data(), context);
  }
  [[nodiscard]] MatmulOutput output(float* out, std::int64_t stride) {
    return {.dtype = type_, .weight = packed_ ? bytes_.data() : rows_, .n = n_, .out = out, .stride = stride};
  }

 private:
  DType type_;
  std::int64_t n_;
  const std::byte* rows_;
  AlignedBytes bytes_;
  bool packed_ = false;
};

inline void run(const MatmulKernel& kernel, const float* x, std::int64_t tokens, std::int64_t k, std::int64_t x_stride,
                std::span<const MatmulOutput> outputs, ExecutionContext& context) {
  AlignedBytes workspace(kernel.workspace_bytes(tokens, k));
  kernel.run({x, tokens, k, x_stride, outputs, workspace.data()}, context);
}

/// y = x W^T, dense, from poisoned memory.
inline std::vector<float> multiply(const MatmulKernel& kernel, DType type, const std::vector<std::byte>& weight,
                                   const std::vector<float>& x, std::int64_t tokens, std::int64_t n, std::int64_t k,
                                   ExecutionContext& context) {
  PackedWeight packed(kernel, type, weight, n, k, context);
  std::vector<float> out(static_cast<std::size_t>(tokens * n), std::numeric_limits<float>::quiet_NaN());
  const MatmulOutput output = packed.output(out.data(), n);
  run(kernel, x.data(), tokens, k, k, {&output, 1}, context);
  return out;
}

/// The kernels that this machine can run with weights of a type. (Every kernel takes BF16.)
inline std::vector<std::unique_ptr<MatmulKernel>> runnable_kernels(DType type = DType::bf16) {
  auto kernels = make_cpu_matmuls();
  DeviceInfo device = cpu_device_info();
  device.fast_bfloat_pairs = true;  // slow ones are to be right as well
  std::erase_if(kernels, [&](const auto& kernel) { return !kernel->supports({type, 1, 256}, device).ok; });
  return kernels;
}

}  // namespace rocmforge::matmul_test
