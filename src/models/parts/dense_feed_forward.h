#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "models/parts/block.h"
#include "models/parts/residual_output.h"

namespace rocmforge {

/// The input of a feed-forward part: a buffer of the step, through its norm if it has one.
struct FeedForwardInput {
  std::optional<NormName> norm;
  float* Buffers::*from = nullptr;
};

/// Wdown (activation(Wgate x) * Wup x), or Wdown activation(Wup x) without a gate. Gate and up are two tensors of the file,
/// or one tensor with the gate's rows first.
class DenseFeedForward final : public FeedForward {
 public:
  /// The width, and the suffix of the tensors' names.
  struct Part {
    std::int32_t width = 0;
    std::string_view suffix{};
  };

  DenseFeedForward(Planner& planner, const ModelConfig& config, int index, const FeedForwardInput& input, const Part& part);

  [[nodiscard]] FusedLinear* first_product() override { return reads_stream_ ? &up_ : nullptr; }
  [[nodiscard]] ResidualSum* sum() override { return down_.sum(); }

 private:
  bool reads_stream_;
  FusedLinear up_;  ///< with the norm before it and the activation after it
  ResidualOutput down_;
};

}  // namespace rocmforge
