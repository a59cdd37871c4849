#pragma once

#include <optional>
#include <string>

#include "models/parts/fused_linear.h"

namespace rocmforge {

/// The tensors of a router, without ".weight".
struct RouterNames {
  std::optional<NormName> norm{};  ///< of the router's input, if the router applies it
  std::string weight;
  bool needs_bias = false;     ///< the product's
  std::string choice_bias{};   ///< with its suffix, "" for none
  std::string shared_gates{};  ///< of shared experts in their order, "" for none
};

/// Chooses each token's experts: the norm of the input, if the router applies it, the router's product and the choice. A
/// single call where a kernel does all three for this number of tokens, otherwise separate operations.
struct ExpertRouter {
  std::optional<Norm> norm;
  Linear linear;
  const WeightVector* choice_bias = nullptr;
  Resolved<RouteTokens> choice;
  /// The single call, for up to most_tokens() tokens.
  struct Rows {
    Resolved<RouteRows> operation;
    Linear::Part router;
    const MatmulWeight* shared_gates = nullptr;
  };
  std::optional<Rows> rows;

  /// Adds its operations: from `x`, or from Buffers::normed without a norm, to Buffers::experts and expert_weights. With a
  /// norm Buffers::normed has its output.
  void append(Operations& operations, float* Buffers::*x) const;

  /// The most tokens of a step that uses the single call; 0 without one.
  [[nodiscard]] std::int64_t tokens_in_one() const { return rows ? rows->operation.kernel->most_tokens() : 0; }

 private:
  [[nodiscard]] bool in_one(const Step& step) const { return rows && step.fuses(tokens_in_one()); }
  void route_rows(const Step& step, const float* x) const;
  void choose(const Step& step) const;
};

}  // namespace rocmforge
