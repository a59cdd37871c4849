#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "models/adapters/adapter_device.h"
#include "models/parts/fused_linear.h"
#include "models/plan/weight_table.h"

namespace rocmforge {

/// The products of experts' gate and up one by one, so that adapters can add to them. The kernel that was chosen for a model
/// computes both and the activation in one call; as a product of down whose tokens are the slots it computes one alone.
class SeparateExperts {
 public:
  /// Makes room for all gates and ups of `weights`; later calls, which have the same table, do nothing. Throws Error naming
  /// a tensor whose activation no kernel computes by itself.
  void prepare(const WeightTable& weights, const AdapterDevice& where);

  /// The slots' own rows [tokens * used, k] of x [tokens, k].
  const float* inputs(const Step& step, const ExpertMatrix& matrix, const float* x) const;
  /// The products of these rows with `matrix`, which is the `place`-th of a call: [tokens * used, n].
  float* multiply(const Step& step, const ExpertMatrix& matrix, std::size_t place, const float* inputs) const;
  /// The activation of the products of {gate, up} or {up}, to `out`.
  void activate(const Step& step, std::span<const ExpertMatrix* const> matrices, float* out) const;

 private:
  [[nodiscard]] float* products(const Step& step, const ExpertMatrix& matrix, std::size_t place) const {
    return products_.as<float>() + static_cast<std::int64_t>(place) * step.tokens * matrix.spec.used * matrix.spec.n;
  }

  bool prepared_ = false;
  std::vector<std::optional<Resolved<GatedActivation>>> activations_;  ///< by ExpertMatrix::index
  Resolved<GatherRows> gather_;
  std::map<std::int64_t, DeviceBuffer> tokens_of_;  ///< [slots of a step]: their tokens, by the number of slots of each
  DeviceBuffer inputs_;
  DeviceBuffer products_;
  DeviceBuffer ones_;  ///< [slots of a step]
  DeviceBuffer workspace_;
  DeviceBuffer order_;
};

}  // namespace rocmforge
