#include "kernels/matmul/hopper/matvec.h"

#include <algorithm>
#include <array>

#include "device/driver.h"
#include "kernels/launch/hopper/launch_fit.h"
#include "kernels/matmul/hopper/matmul_args.h"

namespace rocmforge::hopper {
namespace {

using MatvecKernel = Kernel<MatvecArgs>;

// Kernels for 1, 2, 4 and 8 tokens.
constexpr std::array packed_kernels{MatvecKernel{"matvec_packed", "matvec_packed_1", LaunchOrder::by_kernel},
                                    MatvecKernel{"matvec_packed", "matvec_packed_2", LaunchOrder::by_kernel},
                                    MatvecKernel{"matvec_packed", "matvec_packed_4", LaunchOrder::by_kernel},
                                    MatvecKernel{"matvec_packed", "matvec_packed_8", LaunchOrder::by_kernel}};

constexpr std::array f16_kernels{MatvecKernel{"matvec_half", "matvec_f16_1", LaunchOrder::by_kernel},
                                 MatvecKernel{"matvec_half", "matvec_f16_2", LaunchOrder::by_kernel},
                                 MatvecKernel{"matvec_half", "matvec_f16_4", LaunchOrder::by_kernel},
                                 MatvecKernel{"matvec_half", "matvec_f16_8", LaunchOrder::by_kernel}};
constexpr std::array bf16_kernels{MatvecKernel{"matvec_half", "matvec_bf16_1", LaunchOrder::by_kernel},
                                  MatvecKernel{"matvec_half", "matvec_bf16_2", LaunchOrder::by_kernel},
                                  MatvecKernel{"matvec_half", "matvec_bf16_4", LaunchOrder::by_kernel},
                                  MatvecKernel{"matvec_half", "matvec_bf16_8", LaunchOrder::by_kernel}};
constexpr Kernel<QuantiseArgs> quantise_kernel{"matvec_packed", "matvec_quantise", LaunchOrder::by_kernel};
constexpr Kernel<MatvecInput> sums_kernel{"matvec_half", "matvec_sums", LaunchOrder::by_kernel};

/// log2 of the tokens of the smallest kernel that takes so many.
std::size_t size_index(std::int64_t tokens) {
  std::size_t index = 0;
  while (std::int64_t{1} << index < tokens) {
    ++index;
  }
  return index;
}

/// Fills `args` with the call's outputs of that kind and the use of their products.
void set_parts(MatvecKind kind, const Matmul::Args& call, MatvecArgs& args) {
  std::int64_t tiles = 0;
  for (const MatmulOutput& output : call.outputs) {
    if (matvec_kind(output.dtype) != kind) {
      continue;
    }
    check(args.num_parts < most_matvec_parts, "matmul: more than four outputs in a group");
    MatvecPart& part = args.parts[args.num_parts++];
    part.weight = static_cast<const std::uint8_t*>(output.weight);
    part.bias = output.bias;
    part.out = output.out;
    part.stride = output.stride;
    part.n = static_cast<std::int32_t>(output.n);
    part.first_tile = static_cast<std::int32_t>(tiles);
    part.accumulate = output.accumulate ? 1 : 0;
    tiles += weight_tiles(output.n);
    if (kind == MatvecKind::packed) {
      part.format = weight_format(output.dtype);
      const WeightLayout layout = weight_layout(part.format);
      part.tile_bytes = static_cast<std::int32_t>(weight_tile_bytes(layout, call.k));
      part.step_bytes = matvec_step / layout.elems * layout.record_bytes;
      args.slot_bytes = std::max(args.slot_bytes, part.step_bytes);
    }
  }
  args.tiles = static_cast<std::int32_t>(tiles);
  if (!call.gated) {
    return;
  }
  const Gate gate = call.activation == Activation::silu ? Gate::silu : Gate::gelu_tanh;
  if (args.num_parts == 2) {
    args.gate = gate;
    args.gate_source = GateSource::first_part;
    args.tiles /= 2;
  } else if (matvec_kind(call.outputs[0].dtype) != kind) {
    args.gate = gate;
    args.gate_source = GateSource::out;
    args.parts[0].out = call.outputs[0].out;
    args.parts[0].stride = call.outputs[0].stride;
  }
}

LaunchShape shape_of(std::int64_t columns, std::int64_t rows, int threads) {
  LaunchShape shape;
  shape.grid[0] = static_cast<std::uint32_t>(columns);
  shape.grid[1] = static_cast<std::uint32_t>(rows);
  shape.block[0] = static_cast<std::uint32_t>(threads);
  return shape;
}

/// Launches tokens [first, first + count) of the call, whose parts `args` holds.
void launch(MatvecKind kind, const Matmul::Args& call, MatvecArgs args, std::int64_t first, std::int64_t count,
            const LaunchFit& fit, Stream& stream) {
  for (MatvecPart& part : args.parts) {
    part.out += first * part.stride;
  }
  MatvecInput& input = args.input;
  input.x = call.x + first * call.x_stride;
  input.tokens = static_cast<std::int32_t>(count);
  const auto is_aligned = [](const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; };
  MatvecPostNorm& post = input.post_norm;
  if (post.y != nullptr) {
    post.y += first * post.y_stride;
    post.out += first * post.out_stride;
  }
  const bool aligned_rows = count == 1 || (call.x_stride % 4 == 0 && post.y_stride % 4 == 0 && post.out_stride % 4 == 0);
  const bool aligned_post = is_aligned(post.y) && is_aligned(post.weight) && is_aligned(post.out);
  input.aligned = is_aligned(input.x) && is_aligned(input.norm_weight) && aligned_rows && aligned_post ? 1 : 0;
  args.slots = fit.slots;
  const std::size_t size = size_index(count);
  const int tokens = 1 << size;
  const std::int64_t slices = (call.k + 8 * matvec_threads - 1) / (8 * matvec_threads);
  if (kind != MatvecKind::packed && takes_sums(tokens) && post.y != nullptr) {
    sums_kernel.launch(stream, shape_of(slices, count, matvec_threads), input);
    input.x = post.out;
    input.x_stride = post.out_stride;
    post = {};
  }
  if (kind == MatvecKind::packed && takes_image(tokens)) {
    auto* const image = static_cast<std::uint8_t*>(call.workspace);
    check(image != nullptr, "matmul: no workspace for the quantised activations");
    quantise_kernel.launch(stream, shape_of(slices, tokens, matvec_threads), {input, image, tokens, 0});
    args.image = image;
  }
  const std::int64_t groups = std::min(args.tiles, fit.groups * stream.device().info().compute_units);
  LaunchShape shape = shape_of(groups, 1, matvec_all_threads);
  shape.shared_bytes = static_cast<std::uint32_t>(fit.bytes);
  const auto& kernels = kind == MatvecKind::packed ? packed_kernels : kind == MatvecKind::f16 ? f16_kernels : bf16_kernels;
  kernels[size].launch(stream, shape, args);
}

}  // namespace

MatvecKind matvec_kind(DType type) {
  return has_weight_layout(type) ? MatvecKind::packed
         : type == DType::f16    ? MatvecKind::f16
         : type == DType::bf16   ? MatvecKind::bf16
                                 : MatvecKind::none;
}

std::size_t matvec_workspace_bytes(std::int64_t tokens, std::int64_t k) {
  const int size = 1 << size_index(tokens);
  return takes_image(size) ? static_cast<std::size_t>(matvec_shared(size, static_cast<int>(k), 0, 0).image_bytes) : 0;
}

void run_matvec(MatvecKind kind, const Matmul::Args& call, Stream& stream) {
  MatvecArgs args{};
  set_parts(kind, call, args);
  if (args.num_parts == 0) {
    return;
  }
  args.input = {call.x, call.x_stride, call.norm_weight, call.norm_eps, static_cast<std::int32_t>(call.k), 0, 0, {}};
  if (call.post_norm != nullptr) {
    const MatmulPostNorm& post = *call.post_norm;
    args.input.post_norm = {post.y,   post.y_stride, post.weight, post.out, post.out_stride,
                            post.eps, post.factor,   post.scale,  0};
  }
  const auto fit_of = [&](std::int64_t tokens) {
    const int size = 1 << size_index(tokens);
    // One work-group quantises a single token for all warps of a multiprocessor; more tokens want more warps to hide
    // latency.
    const int most_groups = kind == MatvecKind::packed && size == 1 ? 1 : 2;
    return fit_launch(most_groups, [&](int slots) {
      return (kind == MatvecKind::packed ? matvec_shared(size, args.input.k, slots, args.slot_bytes)
                                         : matvec_half_shared(size, args.input.k, slots))
          .bytes;
    });
  };
  // Long rows of many tokens do not fit into shared memory together.
  std::int64_t most = call.tokens;
  while (most > 1 && fit_of(most).slots < 2) {
    most = (most + 1) / 2;
  }
  for (std::int64_t first = 0; first < call.tokens; first += most) {
    const std::int64_t count = std::min(most, call.tokens - first);
    const LaunchFit fit = fit_of(count);
    check(fit.slots > 0, "matmul: a row is too long for the shared memory");
    launch(kind, call, args, first, count, fit, stream);
  }
}

}  // namespace rocmforge::hopper
