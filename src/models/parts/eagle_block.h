#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/config/eagle_file.h"
#include "models/parts/block.h"
#include "models/parts/operation.h"
#include "models/parts/output_head.h"
#include "models/parts/placed_rows.h"
#include "models/parts/token_draw.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// The block of an EAGLE3 draft (Li, Wei, Zhang and Zhang 2025). From x_1, x_2, ..., the inputs of some layers of the model
/// at a position, and e, the embedding of the token behind it, it gives the logits of the token after that:
///   g = fc (norm) [x_1; x_2; ...];  s = block(attn_norm(e), attn_norm_2(g));  logits = output(output_norm(s))
/// The block's attention reads both halves of its input joined, and g, or its norm, is its residual stream. s stands for g
/// where the block continues what it has drafted. K and V are its own, at the position of x. Not moved once it has returned
/// operations.
class EagleBlock {
 public:
  /// `weights` are of `eagle`'s file, which must outlive the block; `of_model`: the model's embedding, unless the draft has
  /// its own. `communicator`: with the ranks that share the block as they share the model's; else null.
  EagleBlock(Planner& planner, WeightTable& weights, const EagleFile& eagle, const EmbeddingTable* of_model,
             const Communicator* communicator);

  /// From the ids of a step and the layers' inputs in Buffers::features to the input of block().
  [[nodiscard]] const Operations& begin() const { return begin_; }
  /// The same from states in Buffers::projected.
  [[nodiscard]] const Operations& go_on() const { return go_on_; }
  [[nodiscard]] std::span<const std::unique_ptr<Block>> block() const { return {&block_, 1}; }
  /// The wanted states s, to Buffers::projected.
  [[nodiscard]] const Operations& states() const { return states_; }
  [[nodiscard]] const OutputHead& output() const { return *output_; }
  /// Of tokens of the draft's vocabulary.
  [[nodiscard]] const TokenDraw& draw() const { return *draw_; }
  [[nodiscard]] const ModelConfig& config() const { return eagle_->config; }
  /// The model's tokens for what was drawn, valid until the next call.
  std::span<const std::int32_t> model_tokens(std::span<const std::int32_t> drawn);

 private:
  /// From g in Buffers::hidden and the ids to the residual stream there, and the joined input in Buffers::features.
  void add_input(Operations& operations) const;

  const EagleFile* eagle_;
  const EmbeddingTable* embedding_;
  FusedLinear fuse_;
  Norm embedding_norm_;
  Norm state_norm_;
  std::array<PlacedRows, 2> joined_;
  PlacedRows kept_;
  Resolved<GatherRows> gather_;
  std::unique_ptr<Block> block_;
  std::optional<OutputHead> output_;
  std::optional<TokenDraw> draw_;
  Operations begin_;
  Operations go_on_;
  Operations states_;
  std::vector<std::int32_t> tokens_;
};

}  // namespace rocmforge
