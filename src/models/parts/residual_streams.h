#pragma once

#include <optional>

#include "models/config/model_config.h"
#include "models/parts/operation.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// A model with several residual streams (AltUp) keeps those of a token in Buffers::streams. Between blocks Buffers::hidden
/// is the first of them.

/// All streams from the embedding in Buffers::hidden: the others are altup_proj's products with it, with its magnitude.
class StreamInput {
 public:
  StreamInput(Planner& planner, const ModelConfig& config);
  /// Not moved once it has returned operations.
  void append(Operations& operations) const;

 private:
  std::int64_t hidden_;
  Linear project_;
  Resolved<MixStreams> match_;
  const WeightVector* identity_;
};

/// What is around the parts of a block, which work on Buffers::hidden. With m = tanh(altup_router norm(h) / hidden), streams
/// s and the factors C of the layer:
///   predict: s[b] += sum over a of (C m)[b, a] s[a];  h = s[0]
///   correct: s[b] += (h - s[0]) (1 + (C' m)[b]);      normed = s[0] * altup_correct_scale
///   add:     s[b] += normed, but for the first;       h = s[0]
class BlockStreams {
 public:
  BlockStreams(Planner& planner, const ModelConfig& config, int index);
  void append_predict(Operations& operations) const;
  void append_correct(Operations& operations) const;
  void append_add(Operations& operations) const;

 private:
  FusedLinear router_;  ///< with its norm, before which there is none
  Resolved<MixStreams> predict_;
  Resolved<MixStreams> correct_;  ///< and the last sum
  const WeightVector* predict_coefs_;
  const WeightVector* correct_coefs_;
  const WeightVector* correct_scale_;
  const WeightVector* predict_base_;
  const WeightVector* correct_base_;
  const WeightVector* add_base_;
};

/// The end of the last block: Buffers::hidden becomes the mean of the first stream and altup_unembd_proj's products with the
/// others, with its magnitude.
class StreamOutput {
 public:
  StreamOutput(Planner& planner, const ModelConfig& config);
  void append(Operations& operations) const;

 private:
  std::int64_t hidden_;
  std::vector<Linear> project_;  ///< of the streams behind the first
  Resolved<MixStreams> match_;
  const WeightVector* mean_;
};

}  // namespace rocmforge
