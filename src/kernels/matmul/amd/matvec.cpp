#include "kernels/matmul/amd/matvec.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "base/math.h"
#include "device/driver.h"
#include "kernels/matmul/amd/matvec_args.h"
#include "kernels/matmul/amd/matvec_chain_launch.h"
#include "kernels/matmul/amd/matvec_dense_args.h"
#include "kernels/matmul/amd/product_groups.h"

namespace rocmforge::amd {
namespace {

constexpr Kernel<MatvecArgs> dense_one_token{"matvec_dense", "matvec_dense_1", LaunchOrder::by_kernel};
constexpr Kernel<MatvecArgs> dense_several_tokens{"matvec_dense", "matvec_dense_8", LaunchOrder::by_kernel};

/// From how many tokens on matrix instructions multiply bytes, by a model (docs/kernels/amd_matvec.md). On CDNA3 they are
/// faster from two tokens on. On RDNA4, where both ways are bound by memory, dot products are no slower up to seven tokens.
/// The matrix instructions of RDNA3 have the rate of dot products; those of CDNA2 take half as many bytes from a lane.
std::int64_t least_matrix_tokens(const DeviceInfo& device) {
  const std::string_view name = device.architecture_name();
  return name == "gfx942" || name == "gfx950" ? 2 : name.starts_with("gfx12") ? 8 : most_matvec_tokens + 1;
}

bool all_served(const Matmul::Args& call, MatvecWay way) {
  return std::ranges::all_of(call.outputs,
                             [way](const MatmulOutput& output) { return serves(way, weight_format(output.dtype)); });
}

/// Halves of tiles pay on waves of 32 lanes, where a step of half a tile costs half as much.
MatvecWay way_of(const Matmul::Args& call, const DeviceInfo& device) {
  if (call.tokens > 1) {
    return call.tokens >= least_matrix_tokens(device) && all_served(call, MatvecWay::matrix) ? MatvecWay::matrix
                                                                                             : MatvecWay::several_tokens;
  }
  return device.wave_size == 32 && all_served(call, MatvecWay::one_token_halves) ? MatvecWay::one_token_halves
                                                                                 : MatvecWay::one_token;
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
                                    output.accumulate ? 1 : 0,
                                    output.scale,
                                    0};
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

/// As many work-groups as units, for one token as product_groups() says, or fewer when that gives all of them equally many
/// cuts.
void share_out(Device& device, MatvecArgs& args) {
  const double a_unit = args.tokens == 1 ? product_groups(device) : 1.0;
  const auto groups = static_cast<std::int32_t>(a_unit * device.info().compute_units);
  args.group_cuts = static_cast<std::int32_t>(divide_up(args.cuts, std::max(1, groups)));
}

/// Parts of a cut, which have partial sums of their own.
int items_of(const MatvecArgs& args) { return args.gated != 0 ? 2 : 1; }

/// Cuts of a batch and records of a chunk.
struct Plan {
  int batch_cuts;
  int chunk_records;
  int shared_bytes;
};

/// `chunk_elems` of x are in shared memory at a time; shared(...) is matvec_shared(), or what takes its place.
template <class Shared>
Plan plan_dots(const MatvecArgs& args, int cut_rows, int chunk_elems, const Shared& shared) {
  const auto records = static_cast<int>(weight_records(args.k));
  const int chunk = std::min(records, chunk_elems / record_elems);
  const int items = items_of(args);
  const int without = shared(args.tokens, cut_rows, chunk, records, 0).bytes;
  const int cut_bytes = items * partial_sums * args.tokens * cut_rows * 4;
  const int batch =
      std::min({args.group_cuts, (shared_bytes_of_group - without) / cut_bytes, matvec_threads / (args.tokens * cut_rows)});
  return {batch, chunk, shared(args.tokens, cut_rows, chunk, records, items * batch).bytes};
}

/// Each batch quantises the activations again, unless all of them fit; each chunk of a batch begins and ends with the
/// memory idle, which takes about as long as quantising four records of all tokens.
Plan plan_matrix(const MatvecArgs& args, int wave_size) {
  const auto records = static_cast<int>(weight_records(args.k));
  const int items = items_of(args);
  const int padded = matrix_tokens(args.tokens, wave_size);
  const int most_batch = std::min(args.group_cuts, matvec_threads / (args.tokens * matvec_cut_rows(MatvecWay::matrix)));
  Plan best{};
  int least = 0;
  for (int batch = most_batch; batch > 0; --batch) {
    const int room = shared_bytes_of_group - matrix_shared(args.tokens, padded, 0, records, items * batch).bytes;
    const int most = room / matrix_record_bytes(padded);
    if (most <= 0) {
      continue;
    }
    const auto batches = static_cast<int>(divide_up(args.group_cuts, batch));
    const auto chunks = static_cast<int>(divide_up(records, most));
    const int cost = (chunks == 1 ? records : batches * records) + 4 * batches * chunks;
    if (best.batch_cuts == 0 || cost < least) {
      const auto chunk = static_cast<int>(divide_up(records, chunks));
      const auto even = static_cast<int>(divide_up(args.group_cuts, batches));
      best = {even, chunk, matrix_shared(args.tokens, padded, chunk, records, items * even).bytes};
      least = cost;
    }
  }
  return best;
}

LaunchShape shape_of(const Plan& plan, MatvecArgs& args) {
  check(plan.batch_cuts > 0, "matmul: a row is too long for the shared memory");
  args.batch_cuts = plan.batch_cuts;
  args.chunk_records = plan.chunk_records;
  LaunchShape shape;
  shape.grid[0] = static_cast<std::uint32_t>(divide_up(args.cuts, args.group_cuts));
  shape.block[0] = matvec_threads;
  shape.shared_bytes = static_cast<std::uint32_t>(plan.shared_bytes);
  return shape;
}

}  // namespace

void run_matvec(const Matmul::Args& call, Stream& stream) {
  const DeviceInfo& device = stream.device().info();
  const MatvecWay way = way_of(call, device);
  const int cut_rows = matvec_cut_rows(way);
  MatvecArgs args = make_args(call, cut_rows, packed_place);
  share_out(stream.device(), args);
  const LaunchShape shape =
      shape_of(way == MatvecWay::matrix ? plan_matrix(args, device.wave_size)
                                        : plan_dots(args, cut_rows, matvec_chunk_elems(args.tokens), matvec_shared),
               args);
  if (call.tokens > 1 || !join_chain(way, args, shape, stream)) {
    packed_matvec_kernel(way).launch(stream, shape, args);
  }
}

void run_dense_matvec(const Matmul::Args& call, Stream& stream) {
  const DeviceInfo& device = stream.device().info();
  const bool halves = call.tokens == 1 && device.wave_size == 32;  // as matvec_dense.hip has it
  const int cut_rows = matvec_cut_rows(halves ? MatvecWay::one_token_halves : MatvecWay::one_token);
  MatvecArgs args = make_args(call, cut_rows, dense_place);
  share_out(stream.device(), args);
  const LaunchShape shape = shape_of(plan_dots(args, cut_rows, dense_chunk_elems(args.tokens), dense_shared), args);
  (call.tokens == 1 ? dense_one_token : dense_several_tokens).launch(stream, shape, args);
}

}  // namespace rocmforge::amd
