#include <algorithm>
#include <vector>

#include "base/error.h"
#include "kernels/check/arguments/arguments.h"
#include "kernels/experts/kernels.h"
#include "kernels/launch/parallel.h"
#include "kernels/matmul/cpu/cpu_product.h"

namespace rocmforge {
namespace {

/// Slots that share a pass over their expert's matrix, and rows of it that one thread takes at a time.
constexpr std::int64_t most_tile_slots = 64;
constexpr std::int64_t most_part_rows = 128;

/// Slots of one expert: sorted places [first, first + count). Its activations begin at row `input` of the call's.
struct SlotTile {
  std::int32_t expert = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t input = 0;
};

/// The slots of a call sorted by expert, those of one expert in their own order.
struct SortedSlots {
  std::vector<std::int64_t> slots;   ///< by place
  std::vector<std::int64_t> places;  ///< by slot
  std::vector<SlotTile> tiles;
  std::vector<std::int32_t> tile_of;  ///< by place
  std::int64_t inputs = 0;            ///< rows of activations

  explicit SortedSlots(const ExpertMatmul::Args& args)
      : slots(static_cast<std::size_t>(args.tokens * args.used)), places(slots.size()), tile_of(slots.size()) {
    // Where all slots have the same input it is prepared once.
    const bool one_input = args.tokens == 1 && !args.down();
    const std::int64_t most = one_input ? 1 : most_tile_slots;
    inputs = one_input ? 1 : args.tokens * args.used;
    std::vector<std::int64_t> first(static_cast<std::size_t>(args.experts) + 1, 0);
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      ++first[static_cast<std::size_t>(args.ids[slot]) + 1];
    }
    for (std::size_t e = 1; e < first.size(); ++e) {
      first[e] += first[e - 1];
      for (std::int64_t at = first[e - 1]; at < first[e]; at += most) {
        const std::int64_t count = std::min(first[e] - at, most);
        std::fill_n(tile_of.begin() + at, count, static_cast<std::int32_t>(tiles.size()));
        tiles.push_back({static_cast<std::int32_t>(e - 1), at, count, one_input ? 0 : at});
      }
    }
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      const std::int64_t place = first[static_cast<std::size_t>(args.ids[slot])]++;
      places[slot] = place;
      slots[static_cast<std::size_t>(place)] = static_cast<std::int64_t>(slot);
    }
  }
};

/// sum[i] += factor * y[i]
void add_scaled(const float* y, float factor, std::int64_t count, float* sum) {
  for (std::int64_t i = 0; i < count; ++i) {
    sum[i] += factor * y[i];
  }
}

class CpuExpertMatmul final : public CpuProduct<ExpertMatmul> {
 public:
  using CpuProduct::CpuProduct;

  [[nodiscard]] std::size_t workspace_bytes(const ExpertMatmul::Spec& spec, std::int64_t tokens) const override {
    const std::int64_t slots = tokens * spec.used;
    return MatmulInputs(slots, spec.k, bodies().quantised, bodies().plain, nullptr).bytes +
           static_cast<std::size_t>(slots * spec.n) * sizeof(float);
  }

  void run(const ExpertMatmul::Args& args, ExecutionContext& context) const override {
    check_arguments(args);
    if (args.tokens == 0) {
      return;
    }
    check(args.workspace != nullptr, "expert_matmul: no workspace for the activations");
    const SortedSlots sorted(args);
    auto* base = static_cast<std::byte*>(args.workspace);
    const MatmulInputs inputs(sorted.inputs, args.k, bodies().quantised, bodies().plain, base);
    auto* products = reinterpret_cast<float*>(base + inputs.bytes);
    prepare(args, sorted, inputs, context);
    multiply(args, sorted, inputs, products, context);
    if (args.down()) {
      sum_slots(args, sorted, products, context);
    }
  }

 private:
  /// Brings the input of every slot to its place.
  void prepare(const ExpertMatmul::Args& args, const SortedSlots& sorted, const MatmulInputs& inputs,
               ExecutionContext& context) const {
    const std::int64_t sharing = args.down() ? 1 : args.used;  // neighbouring slots with one input
    const std::int64_t places = std::min(sharing, sorted.inputs);
    const std::int64_t count = args.tokens * args.used / sharing;
    // A short input is prepared before other threads would have woken up.
    const std::int64_t grain = sorted.inputs * args.k < 32768 ? count : 1;
    for_each_range(context, count, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        prepare_slots(args, sorted, inputs, i * sharing, places);
      }
    });
  }

  /// Prepares the input of slot `first`, which the next `places` slots, from that one on, share.
  void prepare_slots(const ExpertMatmul::Args& args, const SortedSlots& sorted, const MatmulInputs& inputs,
                     std::int64_t first, std::int64_t places) const {
    const auto quantised = [](const ExpertWeight& weight) { return is_quantised(weight.dtype); };
    const bool any_quantised = std::ranges::any_of(args.weights, quantised);
    const bool any_plain = !std::ranges::all_of(args.weights, quantised);
    const float* x = args.x + (args.down() ? first : first / args.used) * args.k;
    const auto tile_of = [&](std::int64_t slot) -> const SlotTile& {
      const auto place = static_cast<std::size_t>(sorted.places[static_cast<std::size_t>(slot)]);
      return sorted.tiles[static_cast<std::size_t>(sorted.tile_of[place])];
    };
    const auto row_of = [&](std::int64_t slot) {
      return sorted.inputs == 1 ? 0 : sorted.places[static_cast<std::size_t>(slot)] - tile_of(slot).first;
    };
    const MatmulInputs own = inputs.from(tile_of(first).input, args.k);
    const QuantisedRow quantised_row = {own.quantised, tile_of(first).count, row_of(first)};
    for (std::int64_t slot = first; slot < first + places; ++slot) {
      const SlotTile& tile = tile_of(slot);
      const std::int64_t row = row_of(slot);
      const MatmulInputs to = inputs.from(tile.input, args.k);
      InputPanel panel{x, 0, args.k, tile.count, 0, row, row + 1};
      for (; slot == first && any_quantised && panel.panel * packed::panel_columns < args.k; ++panel.panel) {
        bodies().quantised.quantise(panel, to.quantised);
      }
      if (slot != first && any_quantised) {
        copy_quantised(quantised_row, {to.quantised, tile.count, row}, args.k);
      }
      for (panel.panel = 0; any_plain && panel.panel * packed::plain_panel_columns < args.k; ++panel.panel) {
        bodies().plain.prepare(panel, to.plain);
      }
    }
  }

  void multiply(const ExpertMatmul::Args& args, const SortedSlots& sorted, const MatmulInputs& inputs, float* products,
                ExecutionContext& context) const {
    constexpr std::int64_t parts_per_thread = 8;
    const std::int64_t n = args.weights[0].n;
    const std::int64_t threads = context.pool == nullptr ? 1 : context.pool->num_threads();
    const std::int64_t fair = divide_up(std::ssize(sorted.tiles) * n, parts_per_thread * threads);
    const std::int64_t rows = std::min(round_up(fair, packed::group_rows), most_part_rows);
    const std::int64_t parts = divide_up(n, rows);
    for_each_range(context, std::ssize(sorted.tiles) * parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const SlotTile& tile = sorted.tiles[static_cast<std::size_t>(i / parts)];
        const std::int64_t row = i % parts * rows;
        const std::int64_t count = std::min(rows, n - row);
        const MatmulInputs own = inputs.from(tile.input, args.k);
        if (args.down()) {
          multiply_rows(args, args.weights[0], tile, own, row, count, products + tile.first * n + row, n);
        } else {
          activate_rows(args, sorted, tile, own, row, count);
        }
      }
    });
  }

  /// Products of `count` rows of the tile's expert, from `row` on, with the tile's slots: to `out`, rows `stride` apart.
  void multiply_rows(const ExpertMatmul::Args& args, const ExpertWeight& weight, const SlotTile& tile,
                     const MatmulInputs& inputs, std::int64_t row, std::int64_t count, float* out,
                     std::int64_t stride) const {
    const auto* matrix = static_cast<const std::uint8_t*>(weight.data) + tile.expert * weight.expert_bytes;
    const MatmulProduct product = {
        weight.dtype, matrix + row / packed::group_rows * packed_group_bytes(weight.dtype, args.k),
        count,        args.k,
        tile.count,   inputs.quantised,
        inputs.plain, weight.bias != nullptr ? weight.bias + tile.expert * weight.bias_stride + row : nullptr,
        out,          stride,
        false,        weight.scale != nullptr ? weight.scale[tile.expert] : 1.0f};
    const auto multiply = is_quantised(weight.dtype) ? bodies().quantised.multiply : bodies().plain.multiply;
    multiply(product, {0, count, 0, tile.count});
  }

  void activate_rows(const ExpertMatmul::Args& args, const SortedSlots& sorted, const SlotTile& tile,
                     const MatmulInputs& inputs, std::int64_t row, std::int64_t count) const {
    float gate[most_tile_slots * most_part_rows];
    float up[most_tile_slots * most_part_rows];
    if (!args.alone) {
      multiply_rows(args, args.weights.front(), tile, inputs, row, count, gate, count);
    }
    multiply_rows(args, args.weights.back(), tile, inputs, row, count, up, count);
    const auto activate = args.activation == Activation::silu           ? bodies().table.silu_gate
                          : args.activation == Activation::gelu_tanh    ? bodies().table.gelu_tanh_gate
                          : args.activation == Activation::relu_squared ? bodies().table.relu_squared
                                                                        : bodies().table.clamped_swiglu_gate;
    for (std::int64_t i = 0; i < tile.count; ++i) {
      const std::int64_t slot = sorted.slots[static_cast<std::size_t>(tile.first + i)];
      float* const out = args.out + slot * args.weights[0].n + row;
      if (args.activation == Activation::none) {
        std::copy_n(up + i * count, count, out);
      } else {
        activate(args.alone ? nullptr : gate + i * count, up + i * count, count, out);
      }
    }
  }

  static void sum_slots(const ExpertMatmul::Args& args, const SortedSlots& sorted, const float* products,
                        ExecutionContext& context) {
    constexpr std::int64_t columns = 256;  // whose sums stay in the first cache
    const std::int64_t n = args.weights[0].n;
    const std::int64_t parts = divide_up(n, columns);
    for_each_range(context, args.tokens * parts, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t t = i / parts;
        const std::int64_t column = i % parts * columns;
        const std::int64_t count = std::min(columns, n - column);
        float sum[columns] = {};
        for (std::int64_t slot = t * args.used; slot < (t + 1) * args.used; ++slot) {
          const std::int64_t place = sorted.places[static_cast<std::size_t>(slot)];
          add_scaled(products + place * n + column, args.shares[slot], count, sum);
        }
        add_scaled(sum, 1.0f, count, args.out + t * n + column);
      }
    });
  }
};

}  // namespace

std::vector<std::unique_ptr<ExpertMatmulKernel>> make_cpu_expert_matmuls() {
  std::vector<std::unique_ptr<ExpertMatmulKernel>> kernels;
  for (const CpuMatmulBodies& bodies : cpu_matmul_bodies()) {
    if (!bodies.plain.bfloats) {
      kernels.push_back(std::make_unique<CpuExpertMatmul>(bodies));
    }
  }
  return kernels;
}

}  // namespace rocmforge
