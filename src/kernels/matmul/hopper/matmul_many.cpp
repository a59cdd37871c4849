#include "kernels/matmul/hopper/matmul_many.h"

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "kernels/formats/hopper/weight_layout.h"
#include "kernels/launch/kernel_table.h"
#include "kernels/matmul/hopper/matmul_cluster.h"
#include "kernels/matmul/hopper/matmul_tiles_args.h"
#include "kernels/matmul/hopper/tuning.h"

namespace rocmforge::hopper {
namespace {

constexpr int record_columns = 256;  ///< the longest record: activations are padded to whole ones
constexpr std::size_t alignment = 256;
/// Bytes of the sums of segments in memory. They should stay in the L2 cache; larger products take several launches.
constexpr std::int64_t partials_bytes = std::int64_t{32} << 20;

/// Counters of the tiles of a launch: a counted tile has at least two segments of 16 tokens.
constexpr std::int64_t most_arrivals = partials_bytes / static_cast<std::int64_t>(2 * 64 * 16 * sizeof(float));

/// matmul_few.h, and matmul_tiles.h with tiles of 128 or 256 rows.
enum class ManyKernel { few, tiles, high };

/// The kernels of one form.
struct ManyKernels {
  TokenKernels<MatmulTilesArgs, 3> few;
  TokenKernels<MatmulTilesArgs, 3> few_gated;  ///< up to most_gated_few_tokens()
  TokenKernels<MatmulTilesArgs, 4> tiles;
  TokenKernels<MatmulTilesArgs, 3> high;
};

/// By WeightFormat.
constexpr ManyKernels many_kernels[] = {
#define ROCMFORGE_KERNEL(kernel, format, tokens, ending)                                                          \
  {                                                                                                               \
    tokens, { "matmul_tiles_" #format, "matmul_" #kernel "_" #format "_" #tokens ending, LaunchOrder::by_kernel } \
  }
#define ROCMFORGE_THREE(kernel, format, ending)                                                   \
  {                                                                                               \
    {                                                                                             \
      ROCMFORGE_KERNEL(kernel, format, 16, ending), ROCMFORGE_KERNEL(kernel, format, 32, ending), \
          ROCMFORGE_KERNEL(kernel, format, 64, ending)                                            \
    }                                                                                             \
  }
#define ROCMFORGE_FOUR(kernel, format)                                                         \
  {                                                                                            \
    {                                                                                          \
      ROCMFORGE_KERNEL(kernel, format, 32, ""), ROCMFORGE_KERNEL(kernel, format, 64, ""),      \
          ROCMFORGE_KERNEL(kernel, format, 128, ""), ROCMFORGE_KERNEL(kernel, format, 256, "") \
    }                                                                                          \
  }
#define ROCMFORGE_MANY(format)                                                                              \
  {ROCMFORGE_THREE(few, format, ""), ROCMFORGE_THREE(few, format, "_gated"), ROCMFORGE_FOUR(tiles, format), \
   ROCMFORGE_THREE(high, format, "")},
    ROCMFORGE_HOPPER_FORMATS(ROCMFORGE_MANY)
#undef ROCMFORGE_MANY
#undef ROCMFORGE_FOUR
#undef ROCMFORGE_THREE
#undef ROCMFORGE_KERNEL
};

/// matmul_high for outputs of two forms, whose records have equally many columns.
struct MixedKernels {
  WeightFormat forms[2];
  TokenKernels<MatmulTilesArgs, 3> high;
};
constexpr MixedKernels mixed_kernels[] = {
#define ROCMFORGE_KERNEL(form, also, tokens)                                                             \
  {                                                                                                      \
    tokens, { "matmul_tiles_mixed", "matmul_high_" #form "_" #also "_" #tokens, LaunchOrder::by_kernel } \
  }
#define ROCMFORGE_MIXED(form, also)                                                                            \
  {                                                                                                            \
    {WeightFormat::form, WeightFormat::also}, {                                                                \
      { ROCMFORGE_KERNEL(form, also, 16), ROCMFORGE_KERNEL(form, also, 32), ROCMFORGE_KERNEL(form, also, 64) } \
    }                                                                                                          \
  }
    ROCMFORGE_MIXED(q4_k, q6_k), ROCMFORGE_MIXED(q5_k, q6_k)};
#undef ROCMFORGE_MIXED
#undef ROCMFORGE_KERNEL

/// Adds up the segments that matmul_high leaves.
constexpr TokenKernels<MatmulTilesArgs, 3> add_kernels{
    {{16, {"matmul_add_segments", "matmul_add_segments_16", LaunchOrder::by_kernel}},
     {32, {"matmul_add_segments", "matmul_add_segments_32", LaunchOrder::by_kernel}},
     {64, {"matmul_add_segments", "matmul_add_segments_64", LaunchOrder::by_kernel}}}};

/// The call's kernel and its tiles of tokens.
struct Choice {
  ManyKernel kernel;
  int tile_tokens;
  std::int64_t segment_columns;  ///< all, or k is cut into segments
  [[nodiscard]] bool is_few() const { return kernel == ManyKernel::few; }
};

/// A call's activations in the workspace, and the buffers after them.
struct Workspace {
  float* scales;
  std::uint8_t* boxes;
  float* partials;
  std::uint32_t* arrivals;
};

std::int64_t boxes_bytes(std::int64_t tokens, std::int64_t k) {
  return round_up(tokens, most_tile_tokens) * round_up(k, record_columns) * 2;
}

std::int64_t scales_bytes(std::int64_t tokens) { return round_up(tokens, most_tile_tokens) * 4; }

Workspace place(const Matmul::Args& call) {
  check(call.workspace != nullptr, "matmul: no workspace for the activations");
  const auto base = round_up(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(call.workspace)), alignment);
  const std::int64_t boxes = base + scales_bytes(call.tokens);
  const std::int64_t partials = boxes + boxes_bytes(call.tokens, call.k);
  return {reinterpret_cast<float*>(base), reinterpret_cast<std::uint8_t*>(boxes), reinterpret_cast<float*>(partials),
          reinterpret_cast<std::uint32_t*>(partials + partials_bytes)};
}

/// Which kernels compute an output. Depends on the number of tokens and an output's own rows and columns, so that other
/// members of a group change no sum.
enum class ManyKind { cluster, few, shares, whole };
struct Way {
  ManyKind kind;
  std::int64_t segment_columns;
  bool operator==(const Way&) const = default;
};

Way way_of(const Matmul::Args& call, const MatmulOutput& output, int compute_units) {
  if (takes_cluster(call, output)) {
    return {ManyKind::cluster, 0};
  }
  const std::int64_t rows = output.n * (call.gated ? 2 : 1);
  if (rows >= many_rows || call.tokens > most_few_tokens) {
    return {ManyKind::whole, call.k};
  }
  const std::int64_t columns = share_columns(rows, call.k, compute_units);
  return columns < call.k ? Way{ManyKind::shares, columns} : Way{ManyKind::few, few_segment_columns};
}

/// Rounds of tiles over the multiprocessors.
double rounds_of(const Matmul::Args& call, int rows_of_tile, int tile_tokens, int compute_units) {
  std::int64_t tiles = 0;
  for (const MatmulOutput& output : call.outputs) {
    tiles += divide_up(output.n, std::int64_t{rows_of_tile});
  }
  return static_cast<double>(
      divide_up(tiles * divide_up(call.tokens, std::int64_t{tile_tokens}), std::int64_t{compute_units}));
}

/// Of weights with many rows. All tiles have the same sums.
Choice choose_tiles(const Matmul::Args& call, int compute_units) {
  if (call.tokens <= most_small_tile_tokens) {
    const int tokens = call.tokens <= 32 ? 32 : 64;
    // The higher tile reads fewer activations; the lower one keeps more multiprocessors busy.
    if (rounds_of(call, high_tile_rows, tokens, compute_units) * high_tile_cost <
        rounds_of(call, tile_rows, tokens, compute_units)) {
      return {ManyKernel::high, call.tokens <= 16 ? 16 : tokens, call.k};
    }
    return {ManyKernel::tiles, tokens, call.k};
  }
  // Likewise; the larger tile dequantises less, too.
  const auto time = [&](int tile_tokens) {
    return rounds_of(call, tile_rows, tile_tokens, compute_units) * tile_cost(tile_tokens);
  };
  return {ManyKernel::tiles, time(256) <= time(128) ? 256 : 128, call.k};
}

Choice choose(const Matmul::Args& call, const Way& way, int compute_units) {
  if (way.kind == ManyKind::whole) {
    return choose_tiles(call, compute_units);
  }
  int most = most_small_tile_tokens;
  if (way.kind == ManyKind::few && call.gated) {
    for (const MatmulOutput& output : call.outputs) {
      most = std::min(most, most_gated_few_tokens(weight_format(output.dtype)));
    }
  }
  const int tokens = call.tokens <= 16 ? 16 : call.tokens <= 32 ? 32 : most;
  return {way.kind == ManyKind::few ? ManyKernel::few : ManyKernel::high, tokens, way.segment_columns};
}

void convert(const Matmul::Args& call, const Workspace& workspace, const Choice& choice, Stream& stream) {
  constexpr Kernel<TilesConvertArgs> short_rows{"matmul_tiles_convert", "matmul_tiles_convert", LaunchOrder::by_kernel};
  constexpr Kernel<TilesConvertArgs> long_rows{"matmul_tiles_convert", "matmul_tiles_convert_long", LaunchOrder::by_kernel};
  const bool aligned = reinterpret_cast<std::uintptr_t>(call.x) % 16 == 0 && call.x_stride % 4 == 0;
  std::int64_t tiles = 0;
  for (const MatmulOutput& output : call.outputs) {
    tiles += divide_up(output.n, 64) * divide_up(call.tokens, choice.tile_tokens);
  }
  const TilesConvertArgs args{call.x,
                              call.x_stride,
                              call.norm_weight,
                              workspace.boxes,
                              workspace.scales,
                              call.norm_eps,
                              static_cast<std::int32_t>(call.k),
                              static_cast<std::int32_t>(round_up(call.k, record_columns)),
                              static_cast<std::int32_t>(call.tokens),
                              choice.tile_tokens,
                              aligned ? 1 : 0,
                              workspace.arrivals,
                              choice.is_few() ? static_cast<std::int32_t>(std::min(tiles, most_arrivals)) : 0,
                              0};
  LaunchShape shape;
  shape.grid[0] = static_cast<std::uint32_t>(round_up(call.tokens, choice.tile_tokens));
  const bool is_short = call.k <= tiles_convert_short;
  shape.block[0] = is_short ? tiles_convert_threads : tiles_convert_long_threads;
  (is_short ? short_rows : long_rows).launch(stream, shape, args);
}

/// The rows of an output that a launch takes, and the use of their products.
struct Slice {
  const MatmulOutput* output;
  std::int64_t first_row;
  std::int64_t rows;
  TilesStore store;
};

/// Launches of one kernel for a call.
class Launcher {
 public:
  /// `mixed`: outputs have any of its two forms, else all have `form`.
  Launcher(const Matmul::Args& call, const Workspace& workspace, const Choice& choice, WeightFormat form,
           const MixedKernels* mixed, bool gated, Stream& stream)
      : call_(&call),
        choice_(choice),
        form_(mixed == nullptr ? form : larger_format(mixed->forms[0], mixed->forms[1])),
        mixed_(mixed),
        gated_(gated),
        stream_(&stream) {
    const WeightLayout layout = weight_layout(form_);
    args_.x = workspace.boxes;
    args_.x_scales = workspace.scales;
    args_.records = static_cast<std::int32_t>(weight_records(layout, call.k));
    args_.x_boxes = static_cast<std::int32_t>(round_up(call.k, record_columns) / tiles_box_columns);
    args_.tokens = static_cast<std::int32_t>(call.tokens);
    args_.token_tiles = static_cast<std::int32_t>(divide_up(call.tokens, choice.tile_tokens));
    args_.gate = gated ? gate_of(call) : Gate::none;
    args_.segment_records = static_cast<std::int32_t>(divide_up(choice.segment_columns, std::int64_t{layout.elems}));
    args_.segments = static_cast<std::int32_t>(divide_up(args_.records, args_.segment_records));
    args_.partials = workspace.partials;
    args_.arrivals = workspace.arrivals;
    shape_ = choice.is_few() ? few_shape(choice.tile_tokens, gated)
                             : TilesShape{1, choice.tile_tokens,
                                          choice.kernel == ManyKernel::high ? high_tile_consumers : tiles_consumers};
    rows_of_tile_ = choice.is_few() ? 64 : shape_.rows() / (gated ? 2 : 1);
    sums_of_tile_ = std::int64_t{rows_of_tile_} * (gated ? 2 : 1) * choice.tile_tokens;
  }

  /// With a gate the slice of the gate comes first, then the same rows of up.
  void add(const Slice& slice) {
    check(args_.num_parts < most_tiles_parts, "matmul: more than four outputs in a group");
    const MatmulOutput& output = *slice.output;
    const WeightFormat form = weight_format(output.dtype);
    const std::int64_t tile_bytes = weight_tile_bytes(weight_layout(form), call_->k);
    args_.parts[args_.num_parts++] = {
        static_cast<const std::uint8_t*>(output.weight) + slice.first_row / weight_tile_rows * tile_bytes,
        output.bias != nullptr ? output.bias + slice.first_row : nullptr,
        output.out != nullptr ? output.out + slice.first_row : nullptr,
        output.stride,
        static_cast<std::int32_t>(slice.rows),
        gated_ ? 0 : args_.row_tiles,
        slice.store,
        slice.store == TilesStore::gate ? gate_of(*call_) : Gate::none,
        form,
        0};
    const auto tiles = static_cast<std::int32_t>(divide_up(slice.rows, rows_of_tile_));
    args_.row_tiles = gated_ ? tiles : args_.row_tiles + tiles;
  }

  /// How many tiles of rows fit beside those that were added.
  [[nodiscard]] std::int64_t room() const {
    if (args_.segments == 1) {
      return std::numeric_limits<std::int32_t>::max();
    }
    const std::int64_t sums = sums_of_tile_ * args_.segments * args_.token_tiles;
    const std::int64_t most = std::max<std::int64_t>(1, partials_bytes / static_cast<std::int64_t>(sizeof(float)) / sums);
    return most - (gated_ ? 0 : args_.row_tiles);
  }

  [[nodiscard]] int rows_of_tile() const { return rows_of_tile_; }

  void launch() {
    if (args_.num_parts == 0) {
      return;
    }
    const DeviceInfo& device = stream_->device().info();
    const std::int64_t work = std::int64_t{args_.row_tiles} * args_.token_tiles * args_.segments;
    LaunchShape shape;
    shape.block[0] = static_cast<std::uint32_t>(shape_.threads());
    shape.shared_bytes =
        static_cast<std::uint32_t>(choice_.is_few() ? few_rings(shape_, form_).bytes : tiles_rings(shape_, form_).bytes);
    check(args_.segments == 1 || work * device.compute_units <= std::numeric_limits<std::int32_t>::max(),
          "matmul: too many tiles for few tokens");
    shape.grid[0] = static_cast<std::uint32_t>(std::min<std::int64_t>(work, device.compute_units));
    check(shape.grid[0] > 0 && shape.grid[0] <= work, "matmul: a work-group without a tile");
    kernel().launch(*stream_, shape, args_);
    if (choice_.kernel == ManyKernel::high && args_.segments > 1) {
      LaunchShape adding;
      adding.block[0] = add_segments_threads;
      const std::int64_t outputs = args_.row_tiles * args_.token_tiles * std::int64_t{rows_of_tile_} * choice_.tile_tokens;
      adding.grid[0] = static_cast<std::uint32_t>(divide_up(outputs, std::int64_t{4 * add_segments_threads}));
      kernel_of(add_kernels, choice_.tile_tokens).launch(*stream_, adding, args_);
    }
    args_.num_parts = 0;
    args_.row_tiles = 0;
  }

 private:
  [[nodiscard]] const Kernel<MatmulTilesArgs>& kernel() const {
    if (mixed_ != nullptr) {
      return kernel_of(mixed_->high, choice_.tile_tokens);
    }
    const ManyKernels& kernels = many_kernels[static_cast<std::size_t>(form_)];
    switch (choice_.kernel) {
      case ManyKernel::few:
        return kernel_of(gated_ ? kernels.few_gated : kernels.few, choice_.tile_tokens);
      case ManyKernel::tiles:
        return kernel_of(kernels.tiles, choice_.tile_tokens);
      case ManyKernel::high:
        break;
    }
    return kernel_of(kernels.high, choice_.tile_tokens);
  }

  const Matmul::Args* call_;
  Choice choice_;
  WeightFormat form_;  ///< of two the one with the larger records
  const MixedKernels* mixed_;
  bool gated_;
  Stream* stream_;
  TilesShape shape_{};
  int rows_of_tile_ = 0;
  std::int64_t sums_of_tile_ = 0;
  MatmulTilesArgs args_{};
};

/// The kernels for the two forms of these outputs; null: there are none.
const MixedKernels* find_mixed(std::span<const MatmulOutput> outputs) {
  for (const MixedKernels& mixed : mixed_kernels) {
    const auto has = [&](int i) {
      return std::ranges::any_of(outputs, [&](const auto& output) { return weight_format(output.dtype) == mixed.forms[i]; });
    };
    const bool all = std::ranges::all_of(outputs, [&](const MatmulOutput& output) {
      return std::ranges::find(mixed.forms, weight_format(output.dtype)) != std::end(mixed.forms);
    });
    if (all && has(0) && has(1)) {
      return &mixed;
    }
  }
  return nullptr;
}

/// Outputs that one kernel takes.
void run_plain(std::span<const Slice> slices, Launcher& launcher) {
  for (const Slice& slice : slices) {
    for (std::int64_t first = 0; first < slice.rows;) {
      if (launcher.room() <= 0) {
        launcher.launch();
      }
      const std::int64_t rows = std::min(slice.rows - first, launcher.room() * launcher.rows_of_tile());
      launcher.add({slice.output, first, rows, slice.store});
      first += rows;
    }
  }
  launcher.launch();
}

void run_gated(const Matmul::Args& call, Launcher& launcher) {
  const std::int64_t n = call.outputs[0].n;
  for (std::int64_t first = 0; first < n;) {
    const std::int64_t rows = std::min(n - first, launcher.room() * launcher.rows_of_tile());
    launcher.add({&call.outputs[0], first, rows, TilesStore::plain});
    launcher.add({&call.outputs[1], first, rows, TilesStore::plain});
    launcher.launch();
    first += rows;
  }
}

/// Outputs that go one way. `converted`: their activations have been, by other outputs' call.
void run_alike(const Matmul::Args& call, const Way& way, bool converted, Stream& stream) {
  const Choice choice = choose(call, way, stream.device().info().compute_units);
  const Workspace workspace = place(call);
  if (!converted) {
    convert(call, workspace, choice, stream);
  }
  if (call.gated && call.outputs[0].dtype == call.outputs[1].dtype) {
    Launcher launcher(call, workspace, choice, weight_format(call.outputs[0].dtype), nullptr, true, stream);
    run_gated(call, launcher);
    return;
  }
  std::vector<MatmulOutput> outputs(call.outputs.begin(), call.outputs.end());
  if (call.gated) {  // different formats: the gate's product is stored in the output until up's is ready
    outputs[1].out = outputs[0].out;
    outputs[1].stride = outputs[0].stride;
  }
  const MixedKernels* mixed = way.kind == ManyKind::shares && !call.gated ? find_mixed(outputs) : nullptr;
  std::vector<DType> done;
  for (const MatmulOutput& first : outputs) {
    if (std::ranges::find(done, first.dtype) != done.end()) {
      continue;
    }
    std::vector<Slice> slices;
    for (const MatmulOutput& output : outputs) {
      if (mixed != nullptr || output.dtype == first.dtype) {
        const bool up = call.gated && &output == &outputs[1];
        slices.push_back({&output, 0, output.n,
                          up                  ? TilesStore::gate
                          : output.accumulate ? TilesStore::add
                                              : TilesStore::plain});
        done.push_back(output.dtype);
      }
    }
    Launcher launcher(call, workspace, choice, weight_format(first.dtype), mixed, false, stream);
    run_plain(slices, launcher);
  }
}

}  // namespace

Gate gate_of(const Matmul::Args& call) { return call.activation == Activation::silu ? Gate::silu : Gate::gelu_tanh; }

std::size_t matmul_many_workspace_bytes(std::int64_t tokens, std::int64_t k) {
  return alignment + static_cast<std::size_t>(scales_bytes(tokens) + boxes_bytes(tokens, k) + partials_bytes) +
         most_arrivals * sizeof(std::uint32_t);
}

void run_matmul_many(const Matmul::Args& call, Stream& stream) {
  const int compute_units = stream.device().info().compute_units;
  std::vector<MatmulOutput> rest(call.outputs.begin(), call.outputs.end());
  ManyKind before = ManyKind::cluster;
  while (!rest.empty()) {
    const Way way = way_of(call, rest.front(), compute_units);
    const auto others = std::stable_partition(
        rest.begin(), rest.end(), [&](const MatmulOutput& output) { return way_of(call, output, compute_units) == way; });
    Matmul::Args part = call;
    part.outputs = std::span(rest.begin(), others);
    if (way.kind == ManyKind::cluster) {
      run_matmul_cluster(part, stream);
    } else {
      run_alike(part, way, way.kind == ManyKind::shares && before == ManyKind::shares, stream);
    }
    before = way.kind;
    rest.erase(rest.begin(), others);
  }
}

}  // namespace rocmforge::hopper
