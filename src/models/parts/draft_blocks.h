#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/config/model_config.h"
#include "models/parts/block.h"
#include "models/parts/operation.h"
#include "models/parts/output_head.h"
#include "models/parts/token_draw.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// The planner reads the tensors of another file while this lives.
class OtherWeights {
 public:
  OtherWeights(Planner& planner, WeightTable& weights) : planner_(&planner) { planner.read(&weights); }
  OtherWeights(const OtherWeights&) = delete;
  OtherWeights& operator=(const OtherWeights&) = delete;
  ~OtherWeights() { planner_->read(nullptr); }

 private:
  Planner* planner_;
};

/// A draft of another file than the model's, which takes the place of MTP blocks: an EagleBlock or AssistantBlocks. Not
/// moved once it has returned operations.
class DraftBlocks {
 public:
  virtual ~DraftBlocks() = default;
  DraftBlocks(const DraftBlocks&) = delete;
  DraftBlocks& operator=(const DraftBlocks&) = delete;

  /// From the ids of a step and what the model has computed to the input of blocks().
  [[nodiscard]] const Operations& begin() const { return begin_; }
  /// The same from the draft's own states in Buffers::projected.
  [[nodiscard]] virtual const Operations& go_on() const = 0;
  [[nodiscard]] std::span<const std::unique_ptr<Block>> blocks() const { return blocks_; }
  /// Pass::kept_blocks.
  [[nodiscard]] std::size_t kept_blocks() const { return blocks_.back()->keeps() ? blocks_.size() : 0; }
  /// The wanted states, to Buffers::projected.
  [[nodiscard]] const Operations& states() const { return states_; }
  [[nodiscard]] const OutputHead& output() const { return *output_; }
  /// Of tokens of the draft's vocabulary.
  [[nodiscard]] const TokenDraw& draw() const { return *draw_; }
  [[nodiscard]] const ModelConfig& config() const { return *config_; }
  /// The model's tokens for what was drawn, valid until the next call.
  virtual std::span<const std::int32_t> model_tokens(std::span<const std::int32_t> drawn) { return drawn; }

 protected:
  explicit DraftBlocks(const ModelConfig& config) : config_(&config) {}

  const ModelConfig* config_;
  Operations begin_;
  Operations states_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::optional<OutputHead> output_;
  std::optional<TokenDraw> draw_;
};

}  // namespace rocmforge
