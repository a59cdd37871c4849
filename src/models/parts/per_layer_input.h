#pragma once

#include <optional>

#include "models/config/model_config.h"
#include "models/parts/operation.h"
#include "models/parts/residual_output.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// An embedding of each token with P elements for every layer (Gemma 4 E), to Buffers::per_layer:
///   (per_layer_proj_norm(per_layer_model_proj h / sqrt(hidden)) + sqrt(P) * per_layer_token_embd[token]) / sqrt(2)
/// h is the scaled embedding. The norm is applied to each layer's P elements separately.
class PerLayerEmbedding {
 public:
  PerLayerEmbedding(Planner& planner, const ModelConfig& config);

  /// From Buffers::hidden. Not moved once it has returned operations.
  void append(Operations& operations) const;

 private:
  std::int64_t layers_;
  std::int64_t width_;
  Linear project_;
  Norm norm_;
  EmbeddingTable* table_;
};

/// Adds the per-layer embedding at the end of a layer: h = (h + post_norm(proj (gelu(inp_gate h) * own))) * output_scale,
/// where own are the layer's P elements. With several residual streams it reads what BlockStreams corrects, and post_norm's
/// output takes its place in Buffers::normed: BlockStreams adds it.
class PerLayerInput {
 public:
  PerLayerInput(Planner& planner, const ModelConfig& config, int index);

  void append(Operations& operations) const;
  /// Reads the residual stream.
  [[nodiscard]] FusedLinear& first_product() { return gate_; }

 private:
  void activate(const Step& step) const;

  float* Buffers::*stream_;  ///< what is read
  std::int64_t width_;
  std::int64_t offset_;  ///< of the layer's elements in a row of all layers
  std::int64_t stride_;  ///< of those rows
  FusedLinear gate_;     ///< without a norm
  Resolved<GatedActivation> activation_;
  ResidualOutput output_;
  std::optional<Norm> norm_;  ///< post_norm with several streams
};

}  // namespace rocmforge
