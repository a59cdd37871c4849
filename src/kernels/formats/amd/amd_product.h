#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/math.h"
#include "kernels/formats/amd/pack.h"
#include "kernels/formats/amd/weight_layout.h"
#include "kernels/launch/parallel.h"
#include "ops/kernel_registry.h"

namespace rocmforge::amd {

/// What AMD's kernels of Matmul and ExpertMatmul share: weights in tiles of records (weight_layout.h).
template <class Op>
class AmdProduct : public KernelInterfaceOf<Op>::type {
 public:
  [[nodiscard]] std::string_view name() const override { return "amd"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::hip; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::architecture; }

  [[nodiscard]] std::size_t packed_bytes(const typename Op::Spec& spec) const override {
    return has_weight_layout(spec.weight) ? round_up(packed_weight_bytes(spec.weight, spec.n, spec.k), std::size_t{64}) : 0;
  }
  void pack(const typename Op::Spec& spec, const void* rows, void* packed, ExecutionContext& context) const override {
    for_each_range(context, weight_tiles(spec.n), 8, [&](std::int64_t begin, std::int64_t end) {
      pack_tiles(spec.weight, rows, spec.n, spec.k, begin, end, packed);
    });
  }
};

}  // namespace rocmforge::amd
