#include "kernels/amd/matvec.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/math.h"
#include "device/driver.h"
#include "kernels/amd/matvec_args.h"
#include "kernels/amd/matvec_dense_args.h"

namespace rocmforge::amd {
namespace {

/// By MatvecWay.
constexpr std::array<Kernel<MatvecArgs>, 3> kernels{{{"matvec_packed", "matvec_packed_8", LaunchOrder::by_kernel},
                                                     {"matvec_packed", "matvec_packed_1", LaunchOrder::by_kernel},
                                                     {"matvec_packed", "matvec_packed_1_halves", LaunchOrder::by_kernel}}};
constexpr Kernel<MatvecArgs> dense_one_token{"matvec_dense", "matvec_dense_1", LaunchOrder::by_kernel};
constexpr Kernel<MatvecArgs> dense_several_tokens{"matvec_dense", "matvec_dense_8", LaunchOrder::by_kernel};

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

/// How a weight lies in memory.
struct WeightPlace {
  WeightFormat format;
  std::int64_t tile_bytes;
  std::int32_t record_bytes;
};

WeightPlace packed_place(DType dtype, std::int64_t k) {
  const WeightLayout layout = weight_layout(weight_format(dtype));
  return {weight_format(dtype), weight_tile_bytes(layout, k), layout.record_bytes};
}

/// Rows of 16-bit elements.
WeightPlace dense_place(DType dtype, std::int64_t k) {
  return {dtype == DType::f16 ? WeightFormat::f16 : WeightFormat::bf16, weight_tile_rows * k * 2, dense_record_bytes};
}

/// The call, and what its kernel needs of the shared memory.
MatvecArgs make_args(const Matmul::Args& call, int cut_rows, WeightPlace (*place)(DType, std::int64_t)) {
  check(call.outputs.size() <= most_matvec_parts, "matmul: more than four outputs in a group");
  MatvecArgs args{};
  std::int64_t cuts = 0;
  for (const MatmulOutput& output : call.outputs) {
    const WeightPlace of_weight = place(output.dtype, call.k);
    args.parts[args.num_parts++] = {static_cast<const std::uint8_t*>(output.weight),
                                    output.bias,
                                    output.out,
                                    output.stride,
                                    static_cast<std::int32_t>(output.n),
                                    static_cast<std::int32_t>(cuts),
                                    static_cast<std::int32_t>(of_weight.tile_bytes),
                                    of_weight.record_bytes,
                                    of_weight.format,
                                    output.accumulate ? 1 : 0};
    cuts += divide_up(output.n, cut_rows);
  }
  args.gated = call.gated ? 1 : 0;
  args.activation = call.activation;
  args.cuts = static_cast<std::int32_t>(call.gated ? cuts / 2 : cuts);
  args.x = call.x;
  args.x_stride = call.x_stride;
  args.norm_weight = call.norm_weight;
  args.norm_eps = call.norm_eps;
  args.k = static_cast<std::int32_t>(call.k);
  args.tokens = static_cast<std::int32_t>(call.tokens);
  return args;
}

/// As many work-groups as units, or fewer that all have as much to do. `chunk_elems` of x are in shared memory at a time;
/// shared(...) is matvec_shared(), or what takes its place.
template <class Shared>
LaunchShape share_out(int units, int cut_rows, int chunk_elems, const Shared& shared, MatvecArgs& args) {
  const auto records = static_cast<int>(weight_records(args.k));
  args.chunk_records = std::min(records, chunk_elems / record_elems);
  args.group_cuts = static_cast<std::int32_t>(divide_up(args.cuts, std::max(1, units)));
  const int slots = args.gated != 0 ? 2 : 1;
  const int without = shared(args.tokens, cut_rows, args.chunk_records, records, 0).bytes;
  const int cut_outputs = args.tokens * cut_rows;
  const int cut_bytes = slots * partial_sums * cut_outputs * 4;
  const int most_outputs = matvec_threads / cut_outputs;
  args.batch_cuts = std::min({args.group_cuts, (shared_bytes_of_group - without) / cut_bytes, most_outputs});
  check(args.batch_cuts > 0, "matmul: a row is too long for the shared memory");
  LaunchShape shape;
  shape.grid[0] = static_cast<std::uint32_t>(divide_up(args.cuts, args.group_cuts));
  shape.block[0] = matvec_threads;
  shape.shared_bytes =
      static_cast<std::uint32_t>(shared(args.tokens, cut_rows, args.chunk_records, records, slots * args.batch_cuts).bytes);
  return shape;
}

}  // namespace

void run_matvec(const Matmul::Args& call, Stream& stream) {
  const DeviceInfo& device = stream.device().info();
  const MatvecWay way = way_of(call, device);
  const int cut_rows = matvec_cut_rows(way);
  MatvecArgs args = make_args(call, cut_rows, packed_place);
  const LaunchShape shape = share_out(device.compute_units, cut_rows, matvec_chunk_elems(args.tokens), matvec_shared, args);
  kernels[static_cast<std::size_t>(way)].launch(stream, shape, args);
}

void run_dense_matvec(const Matmul::Args& call, Stream& stream) {
  const DeviceInfo& device = stream.device().info();
  const bool halves = call.tokens == 1 && device.wave_size == 32;  // as matvec_dense.hip has it
  const int cut_rows = matvec_cut_rows(halves ? MatvecWay::one_token_halves : MatvecWay::one_token);
  MatvecArgs args = make_args(call, cut_rows, dense_place);
  const LaunchShape shape = share_out(device.compute_units, cut_rows, dense_chunk_elems(args.tokens), dense_shared, args);
  (call.tokens == 1 ? dense_one_token : dense_several_tokens).launch(stream, shape, args);
}

}  // namespace rocmforge::amd
