#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "checks/layer_products.h"
#include "device/device.h"

namespace rocmforge {

/// Random weights of a layer's experts, and what a token takes of each, in host memory.
struct ExpertInputs {
  explicit ExpertInputs(const LayerExperts& experts);

  std::array<std::vector<std::byte>, 3> weights;  ///< gate, up, down, as files have them
  std::vector<std::int32_t> ids;
  std::vector<float> shares;
};

/// A layer's experts in the memory of the device of one kernel.
class PlacedExperts {
 public:
  /// `experts` and `kernel` must outlive it. `host` packs.
  PlacedExperts(Device& device, ExecutionContext& host, const LayerExperts& experts, const ExpertInputs& inputs,
                const ExpertMatmulKernel& kernel);

  /// One token. `x`: [gate_up.k]; `out`: [used, gate_up.n].
  void gate_up(const float* x, float* out, ExecutionContext& context) const;
  /// `x`: [used, down.k]; adds to `out`: [down.n].
  void down(const float* x, float* out, ExecutionContext& context) const;

 private:
  ExpertWeight place(const ExpertMatmul::Spec& spec, const std::vector<std::byte>& rows, ExecutionContext& host);
  void run(const ExpertMatmul::Spec& spec, std::span<const ExpertWeight> weights, const float* x, float* out,
           ExecutionContext& context) const;

  Device* device_;
  const LayerExperts* experts_;
  const ExpertMatmulKernel* kernel_;
  std::vector<DeviceBuffer> memory_;  ///< of the weights
  std::vector<ExpertWeight> weights_;
  DeviceBuffer ids_, shares_, workspace_, order_;
};

}  // namespace rocmforge
