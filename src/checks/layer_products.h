#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "ops/kernel_registry.h"

namespace rocmforge {

/// Products of one token that follow each other in a decode step: attention's output, which is added to the residual stream;
/// gate and up; down, which is added; the next layer's Q, K and V.
enum class LayerProduct : std::uint8_t { attention_output, gate_up, down, qkv };
inline constexpr std::array all_layer_products = {LayerProduct::attention_output, LayerProduct::gate_up, LayerProduct::down,
                                                  LayerProduct::qkv};
/// The last part of its operation's name in a plan: "attn_output".
std::string_view name(LayerProduct product);

/// A token's experts in place of gate and up, and of down, with the router that chooses them.
struct LayerExperts {
  RouteRows::Spec route;
  ExpertMatmul::Spec gate_up, down;
  const RouteRowsKernel* router = nullptr;
  const ExpertMatmulKernel* kernel = nullptr;
};

/// Norms behind attention's output and down: each row is normalised before it is added to the residual stream.
struct LayerNorms {
  RmsNorm::Spec spec;
  const OpKernel<RmsNorm>* kernel = nullptr;
};

/// The weights of these products. Those of a call have one input; all have one kernel.
struct LayerProducts {
  std::string name;  ///< "Llama 3 8B"
  std::array<std::vector<Matmul::Spec>, all_layer_products.size()> calls;
  const MatmulKernel* kernel = nullptr;
  std::optional<LayerExperts> experts{};  ///< where gate_up and down have no weights
  std::optional<LayerNorms> norms{};      ///< not with experts

  [[nodiscard]] const std::vector<Matmul::Spec>& operator[](LayerProduct product) const {
    return calls[static_cast<std::size_t>(product)];
  }
  /// Rows of all weights of a call.
  [[nodiscard]] std::int64_t rows(LayerProduct product) const;
  /// What gate and up write: elements of the layer, or of all of a token's experts.
  [[nodiscard]] std::int64_t gate_elems() const;
  /// Launches of a layer that merges none.
  [[nodiscard]] std::int64_t launches() const { return std::ssize(calls) + (experts ? 1 : norms ? 2 : 0); }
  /// Whether each call reads what the one before it writes.
  [[nodiscard]] bool fits_together() const;
  /// "Q4_0 [4096, 4096]; Q4_0 [11008, 4096] + Q4_0 [11008, 4096]; ..."
  [[nodiscard]] std::string spec() const;
};

using WantsKernel = std::function<bool(const MatmulKernel&)>;

/// Layers of models that people run, where the device's kernel for all of their weights is `wanted`.
std::vector<LayerProducts> layers_of_models(const KernelRegistry& registry, const DeviceInfo& device,
                                            const WantsKernel& wanted);
/// The same of a model with norms behind attention's output and down.
std::vector<LayerProducts> norm_layers_of_models(const KernelRegistry& registry, const DeviceInfo& device,
                                                 const WantsKernel& wanted);
/// The same of models with experts.
std::vector<LayerProducts> expert_layers_of_models(const KernelRegistry& registry, const DeviceInfo& device,
                                                   const WantsKernel& wanted);
/// The first layer of a plan that has these products, of one kernel that is `wanted`. Empty for other models.
std::optional<LayerProducts> layer_of_plan(const std::vector<PlannedOperation>& plan, const WantsKernel& wanted);

}  // namespace rocmforge
