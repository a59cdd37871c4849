#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "models/config/eagle_file.h"
#include "models/parts/draft_blocks.h"
#include "models/parts/placed_rows.h"

namespace rocmforge {

/// The block of an EAGLE3 draft (Li, Wei, Zhang and Zhang 2025). From x_1, x_2, ..., the inputs of some layers of the model
/// at a position, and e, the embedding of the token behind it, it gives the logits of the token after that:
///   g = fc (norm) [x_1; x_2; ...];  s = block(attn_norm(e), attn_norm_2(g));  logits = output(output_norm(s))
/// The block's attention reads both halves of its input joined, and g, or its norm, is its residual stream. s stands for g
/// where the block continues what it has drafted. K and V are its own, at the position of x. begin() reads the layers'
/// inputs in Buffers::features.
class EagleBlock final : public DraftBlocks {
 public:
  /// `weights` are of `eagle`'s file, which must outlive the block; `of_model`: the model's embedding, unless the draft has
  /// its own. `communicator`: with the ranks that share the block as they share the model's; else null.
  EagleBlock(Planner& planner, WeightTable& weights, const EagleFile& eagle, const EmbeddingTable* of_model,
             const Communicator* communicator);

  [[nodiscard]] const Operations& go_on() const override { return go_on_; }
  std::span<const std::int32_t> model_tokens(std::span<const std::int32_t> drawn) override;

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
  Operations go_on_;
  std::vector<std::int32_t> tokens_;
};

}  // namespace rocmforge
