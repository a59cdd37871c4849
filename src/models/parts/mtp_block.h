#pragma once

#include <memory>
#include <optional>
#include <span>

#include "models/config/model_config.h"
#include "models/parts/block.h"
#include "models/parts/operation.h"
#include "models/parts/output_head.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// One block of multi-token prediction (MTP). From h, the final hidden state of a position, and e, the embedding of the
/// token behind it, it gives the logits of the token after that:
///   x = nextn.eh_proj [nextn.enorm(e); nextn.hnorm(h)];  logits = head(nextn.shared_head_norm(block(x)))
/// The block has the form of the model's architecture, with K and V of its own at h's position. If the file has no
/// nextn.embed_tokens, nextn.shared_head_norm or nextn.shared_head_head, the model's own embedding, norm or head is used.
/// Not moved once it has returned operations.
class MtpBlock {
 public:
  /// The parts of the model that it may share.
  struct Shared {
    const EmbeddingTable* embedding = nullptr;
    const FusedLinear* head = nullptr;  ///< with the final norm
    std::span<const std::unique_ptr<Block>> layers{};
  };

  /// `index` is the block's in the file. `config` and the shared parts must outlive it.
  MtpBlock(Planner& planner, const ModelConfig& config, int index, const Shared& shared);

  /// From the ids of a step and h in Buffers::projected [tokens, hidden] to x in Buffers::hidden.
  [[nodiscard]] const Operations& begin() const { return begin_; }
  [[nodiscard]] std::span<const std::unique_ptr<Block>> block() const { return {&block_, 1}; }
  [[nodiscard]] const OutputHead& output() const { return *output_; }

 private:
  void add_input(const ModelConfig& config);

  const EmbeddingTable* embedding_;
  FusedLinear project_embedding_;  ///< the columns of nextn.eh_proj for e, with its norm
  Norm hidden_norm_;
  Linear project_hidden_;  ///< those for h
  Operations begin_;
  std::unique_ptr<Block> block_;
  std::optional<OutputHead> output_;
};

}  // namespace rocmforge
