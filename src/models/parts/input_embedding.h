#pragma once

#include <optional>
#include <vector>

#include "models/config/model_config.h"
#include "models/parts/embedding_table.h"
#include "models/parts/given_rows_part.h"
#include "models/parts/operation.h"
#include "models/parts/per_layer_input.h"
#include "models/parts/residual_streams.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// The rows that the first block reads, in Buffers::hidden: each token's embedding, or the row that is given in its place,
/// with the learned position and the token type added, and the norm behind them, as far as the model has these. With
/// per-layer embeddings also Buffers::per_layer, with several residual streams also Buffers::streams.
class InputEmbedding {
 public:
  /// The plan keeps a pointer to this until it has been loaded.
  InputEmbedding(Planner& planner, const ModelConfig& config, const ModelOptions& options);
  InputEmbedding(const InputEmbedding&) = delete;
  InputEmbedding& operator=(const InputEmbedding&) = delete;

  [[nodiscard]] EmbeddingTable* table() const { return table_; }
  [[nodiscard]] const Operations& operations() const { return operations_; }

 private:
  /// Adds rows of `table` to Buffers::hidden, those of ids(step).
  template <class Ids>
  void append_sum(const EmbeddingTable* table, Ids ids);

  EmbeddingTable* table_;
  std::vector<float> zeros_;  ///< [max_batch_tokens]: ids of a table's first row, since 0.0f has the bits of 0
  const WeightVector* first_type_ = nullptr;  ///< the same in the memory of the weights
  std::optional<GivenRowsPart> given_;        ///< with ModelOptions::given_rows
  std::optional<Norm> norm_;
  std::optional<PerLayerEmbedding> per_layer_;
  std::optional<StreamInput> streams_;
  Operations operations_;
};

}  // namespace rocmforge
