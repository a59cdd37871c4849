#include "kernels/amd/matvec.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/math.h"
#include "device/driver.h"
#include "kernels/amd/matvec_args.h"

namespace rocmforge::amd {
namespace {

/// By MatvecWay.
constexpr std::array<Kernel<MatvecArgs>, 3> kernels{{{"matvec_packed", "matvec_packed_8", LaunchOrder::by_kernel},
                                                     {"matvec_packed", "matvec_packed_1", LaunchOrder::by_kernel},
                                                     {"matvec_packed", "matvec_packed_1_halves", LaunchOrder::by_kernel}}};

/// Halves of tiles pay where a wave has 32 lanes and a step of a half is as cheap as half a step.
MatvecWay way_of(const Matmul::Args& call, const DeviceInfo& device) {
  if (call.tokens > 1) {
    return MatvecWay::several_tokens;
  }
  const bool cheap = std::ranges::all_of(
      call.outputs, [](const MatmulOutput& output) { return takes_halves(weight_format(output.dtype)); });
  return cheap && device.wave_size == 32 ? MatvecWay::one_token_halves : MatvecWay::one_token;
}

constexpr int shared_bytes_of_group = 64 * 1024;

/// Fills `args` with the call's outputs and what becomes of them.
void set_parts(const Matmul::Args& call, int cut_rows, MatvecArgs& args) {
  check(call.outputs.size() <= most_matvec_parts, "matmul: more than four outputs in a group");
  std::int64_t cuts = 0;
  for (const MatmulOutput& output : call.outputs) {
    const WeightFormat format = weight_format(output.dtype);
    const WeightLayout layout = weight_layout(format);
    args.parts[args.num_parts++] = {static_cast<const std::uint8_t*>(output.weight),
                                    output.bias,
                                    output.out,
                                    output.stride,
                                    static_cast<std::int32_t>(output.n),
                                    static_cast<std::int32_t>(cuts),
                                    static_cast<std::int32_t>(weight_tile_bytes(layout, call.k)),
                                    layout.record_bytes,
                                    format,
                                    output.accumulate ? 1 : 0};
    cuts += divide_up(output.n, cut_rows);
  }
  args.gated = call.gated ? 1 : 0;
  args.activation = call.activation;
  args.cuts = static_cast<std::int32_t>(call.gated ? cuts / 2 : cuts);
}

}  // namespace

void run_matvec(const Matmul::Args& call, Stream& stream) {
  const DeviceInfo& device = stream.device().info();
  const MatvecWay way = way_of(call, device);
  const int cut_rows = matvec_cut_rows(way);
  MatvecArgs args{};
  set_parts(call, cut_rows, args);
  args.x = call.x;
  args.x_stride = call.x_stride;
  args.norm_weight = call.norm_weight;
  args.norm_eps = call.norm_eps;
  args.k = static_cast<std::int32_t>(call.k);
  args.tokens = static_cast<std::int32_t>(call.tokens);
  const auto records = static_cast<int>(weight_records(call.k));
  args.chunk_records = std::min(records, matvec_chunk_elems(args.tokens) / record_elems);
  // As many work-groups as units, or fewer that all have as much to do.
  const int units = std::max(1, device.compute_units);
  args.group_cuts = static_cast<std::int32_t>(divide_up(args.cuts, units));
  const int slots = call.gated ? 2 : 1;
  const int without = matvec_shared(args.tokens, cut_rows, args.chunk_records, records, 0).bytes;
  const int cut_outputs = args.tokens * cut_rows;
  const int cut_bytes = slots * partial_sums * cut_outputs * 4;
  const int most_outputs = matvec_threads / cut_outputs;
  args.batch_cuts = std::min({args.group_cuts, (shared_bytes_of_group - without) / cut_bytes, most_outputs});
  check(args.batch_cuts > 0, "matmul: a row is too long for the shared memory");
  LaunchShape shape;
  shape.grid[0] = static_cast<std::uint32_t>(divide_up(args.cuts, args.group_cuts));
  shape.block[0] = matvec_threads;
  shape.shared_bytes = static_cast<std::uint32_t>(
      matvec_shared(args.tokens, cut_rows, args.chunk_records, records, slots * args.batch_cuts).bytes);
  kernels[static_cast<std::size_t>(way)].launch(stream, shape, args);
}

}  // namespace rocmforge::amd
