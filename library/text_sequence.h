#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/sampler.h"
#include "loaded_model.h"

namespace rocmforge {

/// A rocmforge_sequence. For one thread at a time.
class TextSequence {
 public:
  TextSequence(std::shared_ptr<LoadedModel> model, NamedOptions options)
      : model_(std::move(model)), sampler_(model_->sampling(options)) {}

  /// Returns the logits after the last token. Throws as LoadedModel::logits does; then nothing has changed.
  std::span<const float> append(std::span<const std::int32_t> tokens);
  /// -1 where every token is forbidden. Throws UsageError before there are logits.
  std::int32_t sample();
  /// Throws UsageError for more tokens than there are.
  void truncate(std::size_t count);
  [[nodiscard]] std::size_t length() const { return tokens_.size(); }

 private:
  std::shared_ptr<LoadedModel> model_;
  Sampler sampler_;
  std::vector<std::int32_t> tokens_;
  std::vector<float> logits_;  ///< after the last token; empty: not computed
};

}  // namespace rocmforge
