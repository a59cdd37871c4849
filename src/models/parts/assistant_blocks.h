#pragma once

#include <memory>
#include <span>

#include "models/config/assistant_file.h"
#include "models/parts/draft_blocks.h"

namespace rocmforge {

/// The layers of a Gemma 4 model's assistant. From h, the final hidden state of a position, and e, the embedding of the
/// token behind it, it gives the logits of the token after that, and what stands for h where it continues what it has
/// drafted:
///   x = nextn.pre_projection [e; h];  s = output_norm(layers(x));  logits = token_embd s;  h = nextn.post_projection s
/// Its layers are those of a Gemma 4 model, with queries alone: they read the model's keys and values up to h's position.
/// The queries turn by the position of e, all that continue a draft by that of the first.
class AssistantBlocks final : public DraftBlocks {
 public:
  /// What it reads of the model.
  struct OfModel {
    const EmbeddingTable* embedding = nullptr;
    float embedding_scale = 1.0f;
    std::span<const std::unique_ptr<Block>> layers{};  ///< those whose keys it reads are not null
  };

  /// `weights` are of `assistant`'s file, which must outlive the object. `communicator`: with the ranks that share its
  /// layers as they share the model's; else null.
  AssistantBlocks(Planner& planner, WeightTable& weights, const AssistantFile& assistant, const OfModel& model,
                  const Communicator* communicator);

  [[nodiscard]] const Operations& go_on() const override { return begin_; }

 private:
  void add_input(const OfModel& model);
  void add_states();

  FusedLinear project_embedding_;  ///< the columns of nextn.pre_projection for e
  Linear project_state_;           ///< those for h
  FusedLinear post_project_;
  Resolved<GatherRows> gather_;
};

}  // namespace rocmforge
