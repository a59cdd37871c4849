#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "checks/layer_products.h"
#include "device/device.h"

namespace rocmforge {

/// Random weights of a layer's experts and of their router, in host memory.
struct ExpertInputs {
  explicit ExpertInputs(const LayerExperts& experts);

  std::array<std::vector<std::byte>, 3> weights;  ///< gate, up, down, as files have them
  std::vector<float> norm, router;
};

/// A layer's experts in the memory of the device of their kernels.
class PlacedExperts {
 public:
  /// `experts` and the kernels must outlive it. `host` packs.
  PlacedExperts(Device& device, ExecutionContext& host, const LayerExperts& experts, const ExpertInputs& inputs,
                const RouteRowsKernel& router, const ExpertMatmulKernel& kernel);

  /// One token's choice, and its experts' gate and up. `x`: [gate_up.k], before its norm; `out`: [used, gate_up.n].
  void gate_up(const float* x, float* out, ExecutionContext& context) const;
  /// `x`: [used, down.k]; adds to `out`: [down.n].
  void down(const float* x, float* out, ExecutionContext& context) const;

 private:
  ExpertWeight place(const ExpertMatmul::Spec& spec, const std::vector<std::byte>& rows, ExecutionContext& host);
  void run(const ExpertMatmul::Spec& spec, std::span<const ExpertWeight> weights, const float* x, float* out,
           ExecutionContext& context) const;

  Device* device_;
  const LayerExperts* experts_;
  const RouteRowsKernel* router_;
  const ExpertMatmulKernel* kernel_;
  std::vector<DeviceBuffer> memory_;  ///< of the weights
  std::vector<ExpertWeight> weights_;
  DeviceBuffer norm_, router_rows_, normed_, ids_, shares_, logits_, state_, workspace_, order_;
};

}  // namespace rocmforge
