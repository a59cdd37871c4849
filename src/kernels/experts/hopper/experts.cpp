#include <algorithm>
#include <limits>

#include "base/math.h"
#include "kernels/check/arguments/arguments.h"
#include "kernels/experts/hopper/experts_args.h"
#include "kernels/experts/kernels.h"
#include "kernels/experts/portable/experts_tiles.h"
#include "kernels/formats/hopper/hopper_product.h"
#include "kernels/launch/hopper/architecture.h"
#include "kernels/launch/hopper/launch_fit.h"
#include "kernels/launch/kernel_table.h"
#include "kernels/launch/packed_support.h"
#include "kernels/launch/places.h"

namespace rocmforge {
namespace {

using hopper::TilesShape;
using hopper::WeightFormat;
using hopper::WeightLayout;

constexpr Kernel<hopper::ExpertConvertArgs> convert_kernel{"matmul_tiles_convert", "expert_tiles_convert",
                                                           LaunchOrder::by_kernel};
constexpr Kernel<hopper::ExpertConvertArgs> convert_long_kernel{"matmul_tiles_convert", "expert_tiles_convert_long",
                                                                LaunchOrder::by_kernel};
constexpr Kernel<hopper::ExpertFewConvertArgs> few_codes_kernel{"experts_few", "expert_few_codes",
                                                                LaunchOrder::by_kernel_in_turn};
/// The kernels of one form. Gate and up come before down; few slots' kernels are whole and in parts.
struct ExpertKernels {
  Kernel<hopper::ExpertVectorArgs> vectors[2];
  Kernel<hopper::ExpertFewArgs> few[2][2];
  TokenKernels<hopper::ExpertTilesArgs, 2> tiles;
};

/// By WeightFormat.
constexpr ExpertKernels expert_kernels[] = {
#define ROCMFORGE_EXPERT_KERNELS(format)                                                       \
  {{{"experts_vectors", "expert_gate_up_" #format, LaunchOrder::by_kernel_in_turn},            \
    {"experts_vectors", "expert_down_" #format, LaunchOrder::by_kernel}},                      \
   {{{"experts_few", "expert_few_gate_up_" #format, LaunchOrder::by_kernel_in_turn},           \
     {"experts_few", "expert_few_gate_up_in_parts_" #format, LaunchOrder::by_kernel_in_turn}}, \
    {{"experts_few", "expert_few_down_" #format, LaunchOrder::by_kernel},                      \
     {"experts_few", "expert_few_down_in_parts_" #format, LaunchOrder::by_kernel}}},           \
   {{{32, {"matmul_tiles_" #format, "expert_tiles_" #format "_32", LaunchOrder::by_kernel}},   \
     {128, {"matmul_tiles_" #format, "expert_tiles_" #format "_128", LaunchOrder::by_kernel}}}}},
    ROCMFORGE_HOPPER_FORMATS(ROCMFORGE_EXPERT_KERNELS)
#undef ROCMFORGE_EXPERT_KERNELS
};
const ExpertKernels& kernels_of(WeightFormat format) { return expert_kernels[static_cast<std::size_t>(format)]; }

constexpr int record_columns = 256;  ///< the longest record: activations are padded to whole ones

/// With up to this many tokens a token's result has the same bits whatever the other tokens are.
constexpr std::int64_t most_equal_tokens = 8;

int unit_bytes_of(const WeightLayout& layout) { return hopper::expert_unit_columns / layout.elems * layout.record_bytes; }

/// Rows of activations whose codes fit into shared memory together with a ring of two slots, for any format; at least one.
std::int64_t most_rows_at_once(std::int64_t k) {
  const int most_step_bytes = unit_bytes_of(hopper::weight_layout(WeightFormat::q8_0));
  const auto bytes = [&](int rows) {
    return hopper::expert_vector_shared(rows, static_cast<int>(k), 2, most_step_bytes).bytes;
  };
  return std::max(hopper::fitting(gpu::most_experts_used, hopper::shared_bytes_of_group, bytes), 1);
}

/// Whether every slot is computed singly: its weights are read once for each slot, but nothing has to be sorted. Faster
/// while few slots share an expert.
bool takes_vectors(std::int64_t tokens, std::int64_t used, std::int64_t k) {
  return tokens <= 4 || (tokens <= most_equal_tokens && (k > hopper::most_few_columns || used > most_rows_at_once(k)));
}

/// The most slots of a call that counts as having few slots of each expert.
std::int64_t most_few_slots(std::int64_t used, std::int64_t experts) {
  return std::max(most_equal_tokens * used, 8 * experts - 1);
}

/// Slots of a tile: larger tiles dequantise less, smaller ones have less padding.
int tile_tokens(std::int64_t tokens, std::int64_t used, std::int64_t experts, std::int64_t k) {
  const std::int64_t slots = tokens * used;
  if (slots <= most_few_slots(used, experts) && k <= hopper::most_few_columns) {
    return hopper::few_slots;
  }
  return slots < 48 * experts ? 32 : 128;
}

/// Bytes of a row of activations where experts have few slots.
std::int64_t few_row_bytes(std::int64_t k) {
  return hopper::few_row_bytes(static_cast<int>(round_up(k, std::int64_t{record_columns})));
}

/// The slots of a call with many tokens. Their order depends on k through the slots of a tile alone.
SortedSlots sorted_slots(const ExpertMatmul::Args& args) {
  return {args.tokens * args.used, args.experts, tile_tokens(args.tokens, args.used, args.experts, args.k), args.order};
}

/// Gate and up of few slots store their outputs as codes after the order of the slots, for down.
bool leaves_codes(std::int64_t columns) { return columns % 32 == 0 && columns <= hopper::most_few_columns; }
std::uint8_t* codes_behind(const SortedSlots& sorted, void* order) {
  return static_cast<std::uint8_t*>(order) + sorted.bytes;
}

/// The workspace of a call with many tokens.
struct ExpertWorkspace : SortedSlots {
  std::uint8_t* boxes = nullptr;  ///< of all tiles, or rows of codes
  float* scales = nullptr;        ///< of their slots
  float* products = nullptr;      ///< [slots, n] of down
  std::size_t workspace_bytes = 0;

  ExpertWorkspace(const SortedSlots& sorted, std::int64_t n, std::int64_t k, void* base) : SortedSlots(sorted) {
    const std::int64_t rows = most_tiles * tile_tokens;
    Places places(base);
    places.take(boxes, tile_tokens == hopper::few_slots ? slots * few_row_bytes(k) : rows * round_up(k, record_columns) * 2);
    places.take(scales, rows);
    places.take(products, slots * n);
    workspace_bytes = places.bytes();
  }
};

const std::uint8_t* bytes_of(const ExpertWeight& weight) { return static_cast<const std::uint8_t*>(weight.data); }

/// "hopper": quantised experts, repacked at load (weight_layout.h). Up to four tokens: every slot by itself
/// (experts_vectors.h). More: slots sorted by expert, few of each (experts_few.h) or through the tiles of matmul_tiles.h.
class HopperExpertMatmul final : public hopper::HopperProduct<ExpertMatmul> {
 public:
  [[nodiscard]] bool mixes_formats() const override { return false; }

  [[nodiscard]] Support supports(const ExpertMatmul::Spec& spec, const DeviceInfo& device) const override {
    if (spec.alone) {
      return Support::no("experts without a gate");
    }
    constexpr std::int64_t most_rows = std::int64_t{1} << 22;
    const Support packed = check_packed(spec, hopper::check_architecture(device), hopper::has_weight_layout(spec.weight),
                                        "Hopper", most_rows, hopper::most_expert_columns);
    return packed.ok ? check_expert_room(spec, gpu::most_experts_used) : packed;
  }

  [[nodiscard]] std::size_t workspace_bytes(const ExpertMatmul::Spec& spec, std::int64_t tokens) const override {
    if (takes_vectors(tokens, spec.used, spec.k)) {
      return 0;
    }
    const SortedSlots sorted(tokens * spec.used, spec.experts, tile_tokens(tokens, spec.used, spec.experts, spec.k),
                             nullptr);
    return ExpertWorkspace(sorted, spec.n, spec.k, nullptr).workspace_bytes;
  }
  [[nodiscard]] std::size_t order_bytes(const ExpertMatmul::Spec& spec, std::int64_t tokens) const override {
    // Enough for `tokens` tokens or fewer, although fewer may have smaller tiles.
    const std::int64_t slots = tokens * spec.used;
    const std::int64_t few = std::min(slots, most_few_slots(spec.used, spec.experts));
    const std::size_t codes = leaves_codes(spec.n) ? static_cast<std::size_t>(few * few_row_bytes(spec.n)) : 0;
    return SortedSlots(slots, spec.experts, hopper::few_slots, nullptr).bytes + codes;
  }

  void run(const ExpertMatmul::Args& args, ExecutionContext& context) const override {
    check_arguments(args, device());
    check(context.stream != nullptr, "expert_matmul: a GPU kernel without a stream");
    check(args.weights.size() == 1 || args.weights[0].dtype == args.weights[1].dtype,
          "expert_matmul: gate and up are of different formats");
    if (args.tokens == 0) {
      return;
    }
    if (takes_vectors(args.tokens, args.used, args.k)) {
      run_vectors(args, *context.stream);
    } else {
      run_tiles(args, *context.stream);
    }
  }

 private:
  static std::int32_t units_of(const ExpertMatmul::Args& args) {
    return static_cast<std::int32_t>(divide_up(args.k, std::int64_t{hopper::expert_unit_columns}));
  }

  /// Whether a launch may read the choice of experts, and the order of slots, before its predecessor has ended: where the
  /// call of gate and up has come between the launch that wrote them and this one.
  static bool chosen_before(const ExpertMatmul::Args& args, const Stream& stream) {
    return args.down() && args.before.k > 0 && stream.all_but_last_ended();
  }

  static void run_vectors(const ExpertMatmul::Args& args, Stream& stream) {
    const ExpertWeight& weight = args.weights[0];
    const bool gated = args.weights.size() == 2;
    const ExpertWeight& other = args.weights[gated ? 1 : 0];
    const WeightFormat format = hopper::weight_format(weight.dtype);
    const WeightLayout layout = hopper::weight_layout(format);
    const auto used = static_cast<std::int32_t>(args.used);
    const auto slots_at_once =
        gated ? used : static_cast<std::int32_t>(std::min<std::int64_t>(used, most_rows_at_once(args.k)));
    // For gate and up a token has more tiles than there are multiprocessors: two work-groups on each balance better.
    const hopper::LaunchFit fit = hopper::fit_launch(gated ? 2 : 1, [&](int slots) {
      return hopper::expert_vector_shared(gated ? 1 : slots_at_once, static_cast<int>(args.k), slots, unit_bytes_of(layout))
          .bytes;
    });
    check(fit.slots > 0, "expert_matmul: a row is too long for the shared memory");
    hopper::ExpertVectorArgs launch{
        .weights = {bytes_of(weight), bytes_of(other)},
        .expert_bytes = {weight.expert_bytes, other.expert_bytes},
        .finish = {expert_finish(weight), expert_finish(other)},
        .ids = args.ids,
        .shares = args.shares,
        .x = args.x,
        .out = args.out,
        .n = static_cast<std::int32_t>(weight.n),
        .k = static_cast<std::int32_t>(args.k),
        .row_tiles = static_cast<std::int32_t>(hopper::weight_tiles(weight.n)),
        .tile_bytes = static_cast<std::int32_t>(hopper::weight_tile_bytes(layout, args.k)),
        .used = used,
        .first_slot = 0,
        .slots_used = 0,
        .shared = static_cast<std::int32_t>(args.shared),
        .experts = static_cast<std::int32_t>(args.experts),
        .slots = fit.slots,
        .x_aligned = reinterpret_cast<std::uintptr_t>(args.x) % 16 == 0 && args.k % 4 == 0 ? 1 : 0,
        .activation = args.activation,
        .chosen_before = chosen_before(args, stream) ? 1 : 0,
        .unused = 0};
    // The multiprocessors are divided among the tokens.
    const std::int64_t tiles = std::int64_t{launch.row_tiles} * (gated ? used : 1);
    const std::int64_t groups =
        std::min(tiles, std::max<std::int64_t>(fit.groups * stream.device().info().compute_units / args.tokens, 1));
    LaunchShape shape;
    shape.grid = {static_cast<std::uint32_t>(groups), 1, static_cast<std::uint32_t>(args.tokens)};
    shape.block[0] = hopper::matvec_all_threads;
    shape.shared_bytes = static_cast<std::uint32_t>(fit.bytes);
    const Kernel<hopper::ExpertVectorArgs>& kernel = kernels_of(format).vectors[gated ? 0 : 1];
    for (; launch.first_slot < used; launch.first_slot += slots_at_once) {
      launch.slots_used = std::min(slots_at_once, used - launch.first_slot);
      kernel.launch(stream, shape, launch);
      launch.chosen_before = 0;
    }
  }

  static void run_tiles(const ExpertMatmul::Args& args, Stream& stream) {
    check(args.workspace != nullptr && args.order != nullptr, "expert_matmul: no workspace, or none for the order of slots");
    const ExpertWorkspace space(sorted_slots(args), args.weights[0].n, args.k, args.workspace);
    const bool sorted = is_sorted(args, space);
    if (space.tile_tokens == hopper::few_slots) {
      const bool coded = sorted && args.before.made_x && leaves_codes(args.k) &&
                         in_order_of_nibbles(args.before.weight) == in_order_of_nibbles(args.weights[0].dtype);
      if (!coded) {
        convert_few(args, space, sorted, stream);
      }
      multiply_few(args, space, sorted, coded ? codes_behind(space, args.order) : space.boxes, stream);
    } else {
      if (!sorted) {
        space.sort(args, stream);
      }
      convert(args, space, stream);
      multiply(args, space, stream);
    }
    if (args.weights.size() == 1) {
      sum_slots(args, space.products, stream);
    }
  }

  /// Whether the previous call has left the order of the slots and their tiles where this call expects them.
  static bool is_sorted(const ExpertMatmul::Args& args, const ExpertWorkspace& space) {
    return args.before.k > 0 && !takes_vectors(args.tokens, args.used, args.before.k) &&
           tile_tokens(args.tokens, args.used, args.experts, args.before.k) == space.tile_tokens;
  }

  static void convert(const ExpertMatmul::Args& args, const ExpertWorkspace& space, Stream& stream) {
    const int tokens = space.tile_tokens;
    const std::int64_t slots = args.tokens * args.used;
    const bool aligned = reinterpret_cast<std::uintptr_t>(args.x) % 16 == 0 && args.k % 4 == 0;
    const bool is_short = args.k <= hopper::expert_convert_short;
    LaunchShape shape;
    shape.grid[0] = static_cast<std::uint32_t>(space.most_tiles * tokens);
    shape.block[0] = is_short ? hopper::expert_convert_threads : hopper::tiles_convert_long_threads;
    (is_short ? convert_kernel : convert_long_kernel)
        .launch(stream, shape,
                {.rows = {.x = args.x,
                          .x_stride = args.k,
                          .norm_weight = nullptr,
                          .boxes = space.boxes,
                          .scales = space.scales,
                          .norm_epsilon = 0.0f,
                          .k = static_cast<std::int32_t>(args.k),
                          .padded_k = static_cast<std::int32_t>(round_up(args.k, record_columns)),
                          .tokens = static_cast<std::int32_t>(slots),
                          .tile_tokens = tokens,
                          .x_aligned = aligned ? 1 : 0,
                          .arrivals = nullptr,
                          .num_arrivals = 0,
                          .unused = 0},
                 .work = space.tiles,
                 .work_count = space.tile_count,
                 .order = space.order,
                 .slots_of_row = static_cast<std::int32_t>(args.weights.size() == 2 ? args.used : 1),
                 .unused = 0});
  }

  /// Whether the codes of a block lie in the order of nibbles.
  static bool in_order_of_nibbles(DType weight) { return weight == DType::mxfp4; }

  static void convert_few(const ExpertMatmul::Args& args, const ExpertWorkspace& space, bool sorted, Stream& stream) {
    const std::int32_t sorts = sorted ? 0 : 1;
    LaunchShape shape;
    shape.grid[0] = static_cast<std::uint32_t>((args.down() ? space.slots : args.tokens) + sorts);
    shape.block[0] = hopper::few_convert_threads;
    const bool aligned = reinterpret_cast<std::uintptr_t>(args.x) % 16 == 0 && args.k % 4 == 0;
    few_codes_kernel.launch(stream, shape,
                            {.sort = space.sorting(args),
                             .x = args.x,
                             .to = space.boxes,
                             .stride = args.k,
                             .k = static_cast<std::int32_t>(args.k),
                             .padded_columns = static_cast<std::int32_t>(round_up(args.k, record_columns)),
                             .aligned = aligned ? 1 : 0,
                             .for_mxfp4 = in_order_of_nibbles(args.weights[0].dtype) ? 1 : 0,
                             .sorts = sorts,
                             .unused = 0});
  }

  /// Work-groups have some six items each and end after different times. Half as large items even that out, where two warps
  /// can have equally many units of a row. Up to 8 tokens a row's sums stay those of one token.
  static bool in_parts(const ExpertMatmul::Args& args) {
    return args.tokens > hopper::most_matvec_tokens && units_of(args) % hopper::few_parts == 0;
  }

  /// `sorted`: an earlier call has sorted, so that the order was not written by the previous launch. `x`: rows of codes.
  static void multiply_few(const ExpertMatmul::Args& args, const ExpertWorkspace& space, bool sorted, const std::uint8_t* x,
                           Stream& stream) {
    const bool gated = args.weights.size() == 2;
    const ExpertWeight& weight = args.weights[0];
    const ExpertWeight& other = args.weights[gated ? 1 : 0];
    const WeightFormat format = hopper::weight_format(weight.dtype);
    const WeightLayout layout = hopper::weight_layout(format);
    hopper::ExpertFewArgs launch{.weights = {bytes_of(weight), bytes_of(other)},
                                 .expert_bytes = {weight.expert_bytes, other.expert_bytes},
                                 .finish = {expert_finish(weight), expert_finish(other)},
                                 .x = x,
                                 .work = space.tiles,
                                 .work_count = space.tile_count,
                                 .order = space.order,
                                 .out = gated ? args.out : space.products,
                                 .codes = gated && leaves_codes(weight.n) ? codes_behind(space, args.order) : nullptr,
                                 .n = static_cast<std::int32_t>(weight.n),
                                 .records = static_cast<std::int32_t>(hopper::weight_records(layout, args.k)),
                                 .units = units_of(args),
                                 .padded_columns = static_cast<std::int32_t>(round_up(args.k, record_columns)),
                                 .slots_of_row = static_cast<std::int32_t>(gated ? args.used : 1),
                                 .tile_bytes = 0,
                                 .ring = 0,
                                 .activation = args.activation,
                                 .chosen_before = sorted && chosen_before(args, stream) ? 1 : 0,
                                 .unused = 0};
    launch.tile_bytes = static_cast<std::int32_t>(hopper::few_tile_bytes(launch.padded_columns));
    // Two work-groups share a multiprocessor where the activations leave room for two units of each warp.
    const auto shared_with = [&](int ring) {
      return hopper::expert_few_shared(launch.tile_bytes, ring, unit_bytes_of(layout)).bytes;
    };
    const int room =
        shared_with(2) <= hopper::shared_bytes_of_pair ? hopper::shared_bytes_of_pair : hopper::shared_bytes_of_group;
    launch.ring = std::max(hopper::fitting(hopper::most_few_ring, room, shared_with), 1);
    const int parts = in_parts(args) ? hopper::few_parts : 1;
    const std::int64_t row_groups = divide_up(weight.n, hopper::few_rows_at_once(gated ? 2 : 1, parts));
    const std::int64_t places =
        std::int64_t{stream.device().info().compute_units} * (room == hopper::shared_bytes_of_pair ? 2 : 1);
    LaunchShape shape;
    shape.grid[0] = static_cast<std::uint32_t>(std::min(row_groups * space.most_tiles, places));
    shape.block[0] = hopper::few_warps * 32;
    shape.shared_bytes = static_cast<std::uint32_t>(shared_with(launch.ring));
    kernels_of(format).few[gated ? 0 : 1][parts > 1 ? 1 : 0].launch(stream, shape, launch);
  }

  static void multiply(const ExpertMatmul::Args& args, const ExpertWorkspace& space, Stream& stream) {
    const std::int64_t slots = args.tokens * args.used;
    const int tokens = space.tile_tokens;
    const bool gated = args.weights.size() == 2;
    const WeightFormat format = hopper::weight_format(args.weights[0].dtype);
    const std::int64_t n = args.weights[0].n;
    const auto row_tiles = static_cast<std::int32_t>(divide_up(n, gated ? 64 : 128));
    hopper::ExpertTilesArgs launch{};
    hopper::MatmulTilesArgs& product = launch.product;
    for (std::size_t i = 0; i < args.weights.size(); ++i) {
      const ExpertWeight& weight = args.weights[i];
      product.parts[i] = {.weight = bytes_of(weight),
                          .bias = nullptr,
                          .out = gated ? args.out : space.products,
                          .stride = n,
                          .n = static_cast<std::int32_t>(n),
                          .first_tile = 0,
                          .store = hopper::TilesStore::plain,
                          .activation = hopper::Gate::none,
                          .format = format,
                          .unused = 0};
      launch.expert_bytes[i] = weight.expert_bytes;
      launch.finish[i] = expert_finish(weight);
    }
    product.x = space.boxes;
    product.x_scales = space.scales;
    product.num_parts = static_cast<std::int32_t>(args.weights.size());
    product.records = static_cast<std::int32_t>(hopper::weight_records(hopper::weight_layout(format), args.k));
    product.x_boxes = static_cast<std::int32_t>(round_up(args.k, record_columns) / hopper::tiles_box_columns);
    product.tokens = static_cast<std::int32_t>(slots);
    product.row_tiles = row_tiles;
    product.gate = gated ? hopper::Gate::silu : hopper::Gate::none;  // there is a gate: `activation` says which
    launch.work = space.tiles;
    launch.work_count = space.tile_count;
    launch.order = space.order;
    launch.activation = args.activation;
    const TilesShape tile{1, tokens, hopper::tiles_consumers};
    LaunchShape shape;
    shape.grid[0] = static_cast<std::uint32_t>(
        std::min<std::int64_t>(space.most_tiles * row_tiles, stream.device().info().compute_units));
    shape.block[0] = static_cast<std::uint32_t>(tile.threads());
    shape.shared_bytes = static_cast<std::uint32_t>(hopper::tiles_rings(tile, format).bytes);
    kernel_of(kernels_of(format).tiles, tokens).launch(stream, shape, launch);
  }
};

}  // namespace

std::unique_ptr<ExpertMatmulKernel> make_hopper_expert_matmul() { return std::make_unique<HopperExpertMatmul>(); }

}  // namespace rocmforge
