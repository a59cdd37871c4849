#pragma once

#include <cstddef>
#include <cstdint>

#include "device/driver.h"
#include "kernels/gpu/experts_args.h"
#include "ops/experts.h"

namespace rocmforge {

/// The grid of a kernel of experts that walks over more rows than a grid may have.
LaunchShape expert_grid(std::int64_t columns, std::int64_t rows, int threads);

inline gpu::ExpertFinish expert_finish(const ExpertWeight& weight) {
  return {weight.bias, weight.scale, weight.bias_stride};
}

/// Scratch memory of run_expert_tiles().
std::size_t expert_tiles_bytes(const ExpertMatmul::Spec& spec, std::int64_t tokens);

/// Many tokens: slots sorted by expert, their inputs as 16-bit rows (binary16, or bfloat16 when `bfloat`), and `kernel` for
/// each weight, with tiles of gpu::expert_tile; of down then the weighted sums. `weight_stride`: ExpertTileArgs::row_bytes.
void run_expert_tiles(const ExpertMatmul::Args& args, const Kernel<gpu::ExpertTileArgs>& kernel, bool bfloat,
                      std::int64_t weight_stride, Stream& stream);

}  // namespace rocmforge
