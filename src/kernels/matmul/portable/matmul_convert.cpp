#include "kernels/matmul/portable/matmul_convert.h"

#include "kernels/launch/gpu_kernel.h"
#include "kernels/matmul/portable/matmul_args.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::ConvertRowsArgs> convert_to_half{"matmul", "convert_rows_f16", LaunchOrder::by_kernel};
constexpr Kernel<gpu::ConvertRowsArgs> convert_to_bfloat16{"matmul", "convert_rows_bf16", LaunchOrder::by_kernel};

std::size_t rows_bytes(std::int64_t tokens, std::int64_t k) {
  return static_cast<std::size_t>(divide_up(tokens * converted_stride(k) * 2, 64) * 64);
}

}  // namespace

std::int64_t converted_stride(std::int64_t k) { return divide_up(k, gpu::matmul_k_padding) * gpu::matmul_k_padding; }

std::size_t converted_bytes(std::int64_t tokens, std::int64_t k) {
  return rows_bytes(tokens, k) + static_cast<std::size_t>(tokens) * sizeof(float);
}

ConvertedRows place_converted(const Matmul::Args& call) {
  check(call.workspace != nullptr, "matmul: no workspace for the activations");
  auto* base = static_cast<std::byte*>(call.workspace);
  return {reinterpret_cast<std::uint16_t*>(base), reinterpret_cast<float*>(base + rows_bytes(call.tokens, call.k))};
}

void convert_rows(const Matmul::Args& call, bool bfloat, const ConvertedRows& converted, Stream& stream) {
  const gpu::ConvertRowsArgs args{call.x,
                                  call.x_stride,
                                  converted.rows,
                                  converted.scales,
                                  static_cast<std::int32_t>(call.k),
                                  static_cast<std::int32_t>(converted_stride(call.k))};
  LaunchShape shape;
  shape.grid[0] = static_cast<std::uint32_t>(call.tokens);
  shape.block[0] = gpu::convert_threads;
  const auto& kernel = bfloat ? convert_to_bfloat16 : convert_to_half;
  kernel.launch(stream, shape, args);
}

}  // namespace rocmforge
