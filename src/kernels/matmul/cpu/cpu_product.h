#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/math.h"
#include "kernels/check/arguments/arguments.h"
#include "kernels/formats/cpu/matmul_pack.h"
#include "kernels/launch/parallel.h"
#include "kernels/matmul/cpu/matmul_inputs.h"
#include "ops/kernel_registry.h"

namespace rocmforge {

/// What the CPU's kernels of Matmul, ExpertMatmul and HeadMatmul share: their bodies, and weights in panels
/// (matmul_layout.h).
template <class Op>
class CpuProduct : public KernelInterfaceOf<Op>::type {
 public:
  explicit CpuProduct(const CpuMatmulBodies& bodies) : bodies_(bodies) {}
  [[nodiscard]] std::string_view name() const override { return bodies_.kernel_name; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] KernelPriority priority() const override { return bodies_.priority; }

  [[nodiscard]] Support supports(const typename Op::Spec& spec, const DeviceInfo& device) const override {
    if (Support support = check_matmul_device(bodies_, device); !support.ok) {
      return support;
    }
    if (Support support = check_spec(spec); !support.ok) {
      return support;
    }
    return check_packed_format(spec.weight);
  }

  [[nodiscard]] std::size_t packed_bytes(const typename Op::Spec& spec) const override {
    return packed_matmul_bytes(spec.weight, spec.n, spec.k);
  }
  void pack(const typename Op::Spec& spec, const void* rows, void* packed_weight, ExecutionContext& context) const override {
    for_each_range(context, divide_up(spec.n, packed::group_rows), 4, [&](std::int64_t begin, std::int64_t end) {
      pack_matmul_groups(spec.weight, static_cast<const std::uint8_t*>(rows), spec.n, spec.k, begin, end,
                         static_cast<std::uint8_t*>(packed_weight));
    });
  }

 protected:
  [[nodiscard]] const CpuMatmulBodies& bodies() const { return bodies_; }

 private:
  CpuMatmulBodies bodies_;
};

}  // namespace rocmforge
