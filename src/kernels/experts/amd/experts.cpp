#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "kernels/check/arguments/arguments.h"
#include "kernels/experts/amd/experts_args.h"
#include "kernels/experts/amd/experts_chain_launch.h"
#include "kernels/experts/kernels.h"
#include "kernels/experts/portable/experts_tiles.h"
#include "kernels/formats/amd/amd_product.h"
#include "kernels/launch/amd/architectures.h"
#include "kernels/launch/packed_support.h"

namespace rocmforge {
namespace {

using amd::WeightFormat;
using amd::WeightLayout;

/// By WeightFormat.
constexpr Kernel<gpu::ExpertTileArgs> expert_tile_kernels[] = {
#define ROCMFORGE_AMD_TILES(name) {"experts_tiles", "expert_tiles_packed_" #name, LaunchOrder::by_kernel},
    ROCMFORGE_AMD_FORMATS(ROCMFORGE_AMD_TILES)
#undef ROCMFORGE_AMD_TILES
};

constexpr int shared_bytes_of_experts = 64 * 1024;

const std::uint8_t* bytes_of(const ExpertWeight& weight) { return static_cast<const std::uint8_t*>(weight.data); }

/// "amd": quantised experts, repacked at load (weight_layout.h). Up to 8 tokens: every slot by itself (experts_packed.h).
/// More: slots sorted by expert, through the tiles of matmul_packed.h.
class AmdExpertMatmul final : public amd::AmdProduct<ExpertMatmul> {
 public:
  [[nodiscard]] bool mixes_formats() const override { return false; }

  [[nodiscard]] Support supports(const ExpertMatmul::Spec& spec, const DeviceInfo& device) const override {
    constexpr std::int64_t most_columns = std::int64_t{1} << 20;
    const Support packed = check_packed(spec, amd::check_architecture(device), amd::has_weight_layout(spec.weight), "AMD",
                                        amd::most_matrix_rows, most_columns);
    return packed.ok ? check_expert_room(spec, amd::most_expert_rows) : packed;
  }

  [[nodiscard]] std::size_t workspace_bytes(const ExpertMatmul::Spec& spec, std::int64_t tokens) const override {
    return tokens <= amd::most_matvec_tokens ? 0 : expert_tiles_bytes(spec, tokens);
  }
  [[nodiscard]] std::size_t order_bytes(const ExpertMatmul::Spec& spec, std::int64_t tokens) const override {
    return tokens <= amd::most_matvec_tokens ? 0 : expert_order_bytes(spec, tokens);
  }

  void run(const ExpertMatmul::Args& args, ExecutionContext& context) const override {
    check_arguments(args, device());
    check(context.stream != nullptr, "expert_matmul: a GPU kernel without a stream");
    check(args.weights.size() == 1 || args.weights[0].dtype == args.weights[1].dtype,
          "expert_matmul: gate and up are of different formats");
    if (args.tokens == 0) {
      return;
    }
    const WeightFormat format = amd::find_weight_format(args.weights[0].dtype);
    check(format != WeightFormat::none, "expert_matmul: a format without a layout for AMD");
    if (args.tokens <= amd::most_matvec_tokens) {
      run_vectors(args, format, *context.stream);
    } else {
      run_expert_tiles(args,
                       {.kernel = expert_tile_kernels[static_cast<std::size_t>(format)],
                        .weight_stride = amd::weight_tile_bytes(amd::weight_layout(format), args.k),
                        .sorted = args.before.k > 0},
                       *context.stream);
    }
  }

 private:
  static void run_vectors(const ExpertMatmul::Args& args, WeightFormat format, Stream& stream) {
    const ExpertWeight& weight = args.weights[0];
    const ExpertWeight& other = args.weights[args.weights.size() - 1];
    const WeightLayout layout = amd::weight_layout(format);
    const bool down = args.down();
    amd::ExpertVectorArgs launch{.weights = {bytes_of(weight), bytes_of(other)},
                                 .expert_bytes = {weight.expert_bytes, other.expert_bytes},
                                 .finish = {expert_finish(weight), expert_finish(other)},
                                 .ids = args.ids,
                                 .shares = args.shares,
                                 .x = args.x,
                                 .out = args.out,
                                 .n = static_cast<std::int32_t>(weight.n),
                                 .k = static_cast<std::int32_t>(args.k),
                                 .used = static_cast<std::int32_t>(args.used),
                                 .row_tiles = static_cast<std::int32_t>(amd::weight_tiles(weight.n)),
                                 .tile_bytes = static_cast<std::int32_t>(amd::weight_tile_bytes(layout, args.k)),
                                 .record_bytes = layout.record_bytes,
                                 .cuts = 0,
                                 .parts = static_cast<std::int32_t>(down ? args.used : std::ssize(args.weights)),
                                 .group_cuts = 0,
                                 .batch_cuts = 0,
                                 .chunk_records = 0,
                                 .format = format,
                                 .activation = args.activation,
                                 .tile_divisor = 0,
                                 .part_divisor = 0,
                                 .unused = 0};
    launch.tile_divisor = amd::divisor(launch.row_tiles);
    launch.part_divisor = amd::divisor(launch.parts);
    launch.cuts = launch.row_tiles * (down ? 1 : launch.used);
    const LaunchShape shape = share_out(args.tokens, down ? launch.used : 1, stream.device().info().compute_units, launch);
    if (args.tokens > 1 || !amd::join_expert_chain(down, launch, shape, stream)) {
      amd::packed_expert_kernel(down).launch(stream, shape, launch);
    }
  }

  /// Sets the cuts of a work-group and of a batch, and the part of `rows` rows of x in shared memory at a time. The tokens
  /// share the units: there is a work-group for each unit, or fewer when that gives all of them equally many cuts.
  static LaunchShape share_out(std::int64_t tokens, int rows, int units, amd::ExpertVectorArgs& launch) {
    const auto records = static_cast<int>(amd::weight_records(launch.k));
    launch.chunk_records = std::min(records, amd::expert_chunk_records(rows));
    launch.group_cuts = static_cast<std::int32_t>(divide_up(std::int64_t{launch.cuts} * tokens, std::max(1, units)));
    launch.group_cuts = std::min(launch.group_cuts, launch.cuts);
    const auto bytes = [&](int cuts) {
      return amd::expert_shared(rows, launch.chunk_records, records, launch.parts * cuts).bytes;
    };
    const int cut_bytes = bytes(1) - bytes(0);
    launch.batch_cuts = std::min(
        {launch.group_cuts, (shared_bytes_of_experts - bytes(0)) / cut_bytes, amd::most_expert_items / launch.parts});
    check(launch.batch_cuts > 0, "expert_matmul: a row is too long for the shared memory");
    LaunchShape shape;
    shape.grid = {static_cast<std::uint32_t>(divide_up(launch.cuts, launch.group_cuts)), static_cast<std::uint32_t>(tokens),
                  1};
    shape.block[0] = amd::matvec_threads;
    shape.shared_bytes = static_cast<std::uint32_t>(bytes(launch.batch_cuts));
    return shape;
  }
};

}  // namespace

std::unique_ptr<ExpertMatmulKernel> make_amd_expert_matmul() { return std::make_unique<AmdExpertMatmul>(); }

}  // namespace rocmforge
