#pragma once

#include <optional>
#include <string>

#include "models/fused_linear.h"

namespace rocmforge {

/// The tensors of a router, without ".weight".
struct RouterNames {
  std::optional<NormName> norm{};  ///< of its input, when it is the router's
  std::string weight;
  bool needs_bias = false;     ///< the product's
  std::string choice_bias{};   ///< with its suffix, "" for none
  std::string shared_gates{};  ///< of shared experts in their order, "" for none
};

/// The choice of each token's experts: the norm of its input, if it is the router's own, the router's product and the
/// choice. One call where a kernel does all three with so many tokens, otherwise operations of their own.
struct Router {
  std::optional<Norm> norm;
  Linear linear;
  const WeightVector* choice_bias = nullptr;
  Resolved<RouteTokens> choice;
  /// For so many tokens as the kernel takes.
  struct Rows {
    Resolved<RouteRows> operation;
    Linear::Part router;
    const MatmulWeight* shared_gates = nullptr;
  };
  std::optional<Rows> rows;

  /// Adds its operations: from `x`, or from Buffers::normed without a norm, to Buffers::experts and expert_weights. With a
  /// norm Buffers::normed has its output.
  void append(Operations& operations, float* Buffers::* x) const;

  /// Of a step that is one call at most.
  [[nodiscard]] std::int64_t tokens_in_one() const { return rows ? rows->operation.kernel->most_tokens() : 0; }

 private:
  [[nodiscard]] bool in_one(const Step& step) const { return rows && step.tokens <= tokens_in_one(); }
  void route_rows(const Step& step, const float* x) const;
  void choose(const Step& step) const;
};

}  // namespace rocmforge
