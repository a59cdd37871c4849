#pragma once

// The kernels of one format: matmul_tiles_FORMAT_TOKENS and expert_tiles_FORMAT_TOKENS of matmul_tiles.h; of matmul_few.h
// matmul_few_FORMAT_TOKENS and, for a gated pair, matmul_few_FORMAT_TOKENS_gated.

#include "kernels/matmul/hopper/matmul_few.h"
#include "kernels/matmul/hopper/matmul_tiles.h"

#define ROCMFORGE_MATMUL_KERNEL(name, body, ...)                                                   \
  extern "C" __global__ void __launch_bounds__(rocmforge::hopper::__VA_ARGS__::shape.threads(), 1) \
      name(const __grid_constant__ rocmforge::hopper::__VA_ARGS__::Args args) {                    \
    rocmforge::hopper::body<rocmforge::hopper::__VA_ARGS__>(args);                                 \
  }
#define ROCMFORGE_MATMUL_HIGH(format, tokens, blocks)                                          \
  ROCMFORGE_MATMUL_KERNEL(matmul_high_##format##_##tokens, multiply_tiles,                     \
                          TilesConfig<rocmforge::hopper::WeightFormat::format, tokens, blocks, \
                                      rocmforge::hopper::MatmulTilesArgs, rocmforge::hopper::high_tile_consumers>)
/// For weights of two formats.
#define ROCMFORGE_MATMUL_HIGH_MIXED(format, also, tokens)                                                 \
  ROCMFORGE_MATMUL_KERNEL(                                                                                \
      matmul_high_##format##_##also##_##tokens, multiply_tiles,                                           \
      TilesConfig<rocmforge::hopper::WeightFormat::format, tokens, 1, rocmforge::hopper::MatmulTilesArgs, \
                  rocmforge::hopper::high_tile_consumers, rocmforge::hopper::WeightFormat::also>)
#define ROCMFORGE_MATMUL_TILES(format, tokens)                              \
  ROCMFORGE_MATMUL_KERNEL(matmul_tiles_##format##_##tokens, multiply_tiles, \
                          TilesConfig<rocmforge::hopper::WeightFormat::format, tokens>)
#define ROCMFORGE_EXPERT_TILES(format, tokens)          \
  ROCMFORGE_MATMUL_KERNEL(                              \
      expert_tiles_##format##_##tokens, multiply_tiles, \
      TilesConfig<rocmforge::hopper::WeightFormat::format, tokens, 1, rocmforge::hopper::ExpertTilesArgs>)
#define ROCMFORGE_MATMUL_FEW(format, tokens)                            \
  ROCMFORGE_MATMUL_KERNEL(matmul_few_##format##_##tokens, multiply_few, \
                          FewConfig<rocmforge::hopper::WeightFormat::format, tokens, false>)
#define ROCMFORGE_MATMUL_FEW_GATED(format, tokens)                              \
  ROCMFORGE_MATMUL_KERNEL(matmul_few_##format##_##tokens##_gated, multiply_few, \
                          FewConfig<rocmforge::hopper::WeightFormat::format, tokens, true>)
#define ROCMFORGE_MATMUL_TILES_FORMAT(format) \
  ROCMFORGE_MATMUL_TILES(format, 32)          \
  ROCMFORGE_MATMUL_TILES(format, 64)          \
  ROCMFORGE_MATMUL_TILES(format, 128)         \
  ROCMFORGE_MATMUL_TILES(format, 256)         \
  ROCMFORGE_MATMUL_HIGH(format, 16, 1)        \
  ROCMFORGE_MATMUL_HIGH(format, 32, 1)        \
  ROCMFORGE_MATMUL_HIGH(format, 64, 1)        \
  ROCMFORGE_EXPERT_TILES(format, 32)          \
  ROCMFORGE_EXPERT_TILES(format, 128)         \
  ROCMFORGE_MATMUL_FEW(format, 16)            \
  ROCMFORGE_MATMUL_FEW(format, 32)            \
  ROCMFORGE_MATMUL_FEW(format, 64)            \
  ROCMFORGE_MATMUL_FEW_GATED(format, 16)      \
  ROCMFORGE_MATMUL_FEW_GATED(format, 32)
