#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/math.h"
#include "kernels/formats/hopper/pack.h"
#include "kernels/formats/hopper/weight_layout.h"
#include "kernels/launch/parallel.h"
#include "ops/kernel_registry.h"

namespace rocmforge::hopper {

/// What Hopper's kernels of Matmul and ExpertMatmul share: weights in tiles of records (weight_layout.h) where their format
/// has a layout; others stay as the file has them.
template <class Op>
class HopperProduct : public KernelInterfaceOf<Op>::type {
 public:
  [[nodiscard]] std::string_view name() const override { return "hopper"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cuda; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::architecture; }

  [[nodiscard]] std::size_t packed_bytes(const typename Op::Spec& spec) const override {
    if (!has_weight_layout(spec.weight)) {
      return 0;
    }
    const WeightLayout layout = weight_layout(weight_format(spec.weight));
    return static_cast<std::size_t>(round_up(weight_tiles(spec.n) * weight_tile_bytes(layout, spec.k), 64));
  }
  void pack(const typename Op::Spec& spec, const void* rows, void* packed, ExecutionContext& context) const override {
    if (!has_weight_layout(spec.weight)) {
      return;
    }
    for_each_range(context, weight_tiles(spec.n), 4, [&](std::int64_t begin, std::int64_t end) {
      pack_tiles(spec.weight, rows, spec.n, spec.k, begin, end, packed);
    });
  }
};

}  // namespace rocmforge::hopper
