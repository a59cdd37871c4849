// RMSNorm, LayerNorm, activations, sums and copies of rows. Memory bound: four floats a load where rows are aligned.

#include "kernels/tile/elementwise.h"

#include "kernels/rows/portable/elementwise_args.h"
#include "kernels/rows/portable/rms_norm_row.h"
#include "kernels/tile/activation.h"

namespace rocmforge::gpu {
namespace {

/// A row is held in registers up to this many loads for each thread; elements beyond are read again.
constexpr int kept_loads = 4;

template <int width>
__device__ void rms_norm_rows(const RmsNormArgs& args, float* scratch) {
  const std::int64_t items = args.dim / width;
  const int stride = static_cast<int>(blockDim.x);
  // No kernel writes the weights: the first ones are on their way before the row is there.
  const bool has_first = thread_index() < items && blockIdx.x < args.rows;
  Floats<width> weight{};
  if (has_first) {
    weight = load<width>(args.weight + blockIdx.x % args.groups * args.dim, thread_index());
  }
  wait_for_predecessor();
  for (std::int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const float* x = args.x + row * args.stride;
    const RmsNormOut out{args.weight + row % args.groups * args.dim,
                         args.residual != nullptr ? args.residual + row * args.stride : nullptr,
                         args.out + row * args.stride, args.factor, args.scale};
    Floats<width> kept[kept_loads];
    const Floats<width> first_before = has_first ? out.template before<width>(thread_index()) : Floats<width>{};
    const bool has_weight = row == blockIdx.x;
    float sum = 0.0f;
#pragma unroll
    for (int l = 0; l < kept_loads; ++l) {
      if (const int item = thread_index() + l * stride; item < items) {
        kept[l] = load<width>(x, item);
        sum += sum_of_squares(kept[l]);
      }
    }
    for (std::int64_t item = thread_index() + kept_loads * stride; item < items; item += stride) {
      sum += sum_of_squares(load<width>(x, item));
    }
    const float mean = block_reduce<Sum>(sum, scratch, 0.0f) / static_cast<float>(args.dim);
    const float scale = 1.0f / sqrtf(mean + args.eps);
#pragma unroll
    for (int l = 0; l < kept_loads; ++l) {
      if (const int item = thread_index() + l * stride; item < items) {
        if (l == 0) {
          out.write(item, kept[l], scale, has_weight ? weight : load<width>(out.weights, item), first_before);
        } else {
          out.write(item, kept[l], scale);
        }
      }
    }
    for (std::int64_t item = thread_index() + kept_loads * stride; item < items; item += stride) {
      out.write(item, load<width>(x, item), scale);
    }
  }
}

/// Reads each part of a row three times; the second and third time from caches.
__device__ void layer_norm_rows(const LayerNormArgs& args, float* scratch) {
  const auto dim = static_cast<float>(args.dim);
  for (std::int64_t part = blockIdx.x; part < args.rows * args.groups; part += gridDim.x) {
    const std::int64_t group = part % args.groups;
    const std::int64_t at = part / args.groups * args.stride + group * args.dim;
    const float* x = args.x + at;
    const float* weight = args.weight + group * args.dim;
    float* out = args.out + at;
    float sum = 0.0f;
    for (std::int64_t i = thread_index(); i < args.dim; i += blockDim.x) {
      sum += x[i];
    }
    const float mean = block_reduce<Sum>(sum, scratch, 0.0f) / dim;
    float squares = 0.0f;
    for (std::int64_t i = thread_index(); i < args.dim; i += blockDim.x) {
      squares += (x[i] - mean) * (x[i] - mean);
    }
    const float scale = 1.0f / sqrtf(block_reduce<Sum>(squares, scratch, 0.0f) / dim + args.eps);
    for (std::int64_t i = thread_index(); i < args.dim; i += blockDim.x) {
      const float value = (x[i] - mean) * scale * weight[i];
      out[i] = args.bias != nullptr ? value + args.bias[group * args.dim + i] : value;
    }
  }
}

template <class Activation, int width>
__device__ void gated_rows(const GatedActivationArgs& args) {
  for (std::int64_t token = blockIdx.y; token < args.tokens; token += gridDim.y) {
    for (std::int64_t item = grid_index(); item < args.width / width; item += grid_threads()) {
      Floats<width> out = load<width>(args.up + token * args.up_stride, item);
      if (args.gate != nullptr) {
        const Floats<width> gate = load<width>(args.gate + token * args.stride, item);
#pragma unroll
        for (int i = 0; i < width; ++i) {
          out.values[i] *= Activation::value(gate.values[i]);
        }
      } else {
#pragma unroll
        for (int i = 0; i < width; ++i) {
          out.values[i] = Activation::value(out.values[i]);
        }
      }
      store(args.out + token * args.width, item, out);
    }
  }
}

template <class Activation>
__device__ void gated_activation(const GatedActivationArgs& args) {
  begin_dependent();
  if (takes_fours(args.gate, args.stride) && takes_fours(args.up, args.up_stride) && takes_fours(args.out, args.width)) {
    gated_rows<Activation, 4>(args);
  } else {
    gated_rows<Activation, 1>(args);
  }
}

}  // namespace

ROCMFORGE_KERNEL __launch_bounds__(1024, 1) rms_norm(RmsNormArgs args) {
  __shared__ float scratch[1024 / wave_size];
  release_successor();
  if (takes_fours(args.x, args.stride) && takes_fours(args.weight, args.dim) && takes_fours(args.out, args.stride) &&
      (args.residual == nullptr || takes_fours(args.residual, args.stride))) {
    rms_norm_rows<4>(args, scratch);
  } else {
    rms_norm_rows<1>(args, scratch);
  }
}

ROCMFORGE_KERNEL __launch_bounds__(1024, 1) layer_norm(LayerNormArgs args) {
  __shared__ float scratch[1024 / wave_size];
  begin_dependent();
  layer_norm_rows(args, scratch);
}

ROCMFORGE_KERNEL gated_silu(GatedActivationArgs args) { gated_activation<Silu>(args); }
ROCMFORGE_KERNEL gated_gelu(GatedActivationArgs args) { gated_activation<Gelu>(args); }
ROCMFORGE_KERNEL gated_gelu_quick(GatedActivationArgs args) { gated_activation<GeluQuick>(args); }
ROCMFORGE_KERNEL gated_gelu_tanh(GatedActivationArgs args) { gated_activation<GeluTanh>(args); }

ROCMFORGE_KERNEL relu_squared(GatedActivationArgs args) { gated_activation<ReluSquared>(args); }

ROCMFORGE_KERNEL residual_add(ResidualAddArgs args) {
  begin_dependent();
  const bool fours = takes_fours(args.a, 0) && takes_fours(args.b, 0) && takes_fours(args.out, 0);
  const std::int64_t wide_items = fours ? args.count / 4 : 0;
  for (std::int64_t item = grid_index(); item < wide_items; item += grid_threads()) {
    Floats<4> sum = load<4>(args.a, item);
    const Floats<4> b = load<4>(args.b, item);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum.values[i] = (sum.values[i] + args.factor * b.values[i]) * args.scale;
    }
    store(args.out, item, sum);
  }
  for (std::int64_t i = 4 * wide_items + grid_index(); i < args.count; i += grid_threads()) {
    args.out[i] = (args.a[i] + args.factor * args.b[i]) * args.scale;
  }
}

ROCMFORGE_KERNEL gather_rows(GatherRowsArgs args) {
  begin_dependent();
  const bool fours = takes_fours(args.x, args.dim) && takes_fours(args.out, args.dim);
  for (std::int64_t row = blockIdx.y; row < args.count; row += gridDim.y) {
    const float* from = args.x + args.ids[row] * args.dim;
    float* to = args.out + row * args.dim;
    if (fours) {
      for (std::int64_t item = grid_index(); item < args.dim / 4; item += grid_threads()) {
        store(to, item, load<4>(from, item));
      }
    } else {
      for (std::int64_t i = grid_index(); i < args.dim; i += grid_threads()) {
        to[i] = from[i];
      }
    }
  }
}

}  // namespace rocmforge::gpu
