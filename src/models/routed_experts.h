#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/execution_plan.h"
#include "models/operation.h"

namespace rocmforge {

/// A router and the experts it chooses from: hidden += sum of weight_e * down_e (activation(gate_e x) * (up_e x)) over the
/// chosen e, x = Buffers::normed, the output of the router's norm where it has one. Not moved once it has given out
/// operations.
class RoutedExperts {
 public:
  struct Config {
    RouteTokens::Spec route;
    std::int64_t width = 0;  ///< of one expert
    std::int64_t hidden = 0;
    Activation activation = Activation::silu;
  };
  /// The tensors of a block without ".weight".
  struct Names {
    RouterNames router;
    ExpertTensorName gate;
    ExpertTensorName up;
    ExpertTensorName down;
  };

  RoutedExperts(ExecutionPlan& plan, const Config& config, const Names& names);

  /// `x`: what the router's norm reads.
  void append(Operations& operations, float* Buffers::*x) const;

 private:
  void multiply(const Step& step, const std::vector<const ExpertMatrix*>& matrices, std::int64_t k, const float* x,
                float* out) const;

  Config config_;
  Router router_;
  std::string up_kind_;
  std::string down_kind_;
  std::vector<const ExpertMatrix*> gate_up_;
  std::vector<const ExpertMatrix*> down_;
};

}  // namespace rocmforge
