#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "models/config/model_config.h"
#include "models/config/model_tensors.h"
#include "models/parts/control_part.h"
#include "models/parts/given_rows_part.h"
#include "models/parts/learned_residual.h"
#include "models/parts/operation.h"
#include "models/parts/per_layer_input.h"
#include "models/parts/placed_rows.h"
#include "models/parts/residual_streams.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// The part of a block that mixes positions, as operations in two halves: after the first half of the last layer, rows
/// without wanted results are dropped. The mixer owns its operations and is not moved.
class Mixer {
 public:
  Mixer() = default;
  virtual ~Mixer() = default;
  Mixer(const Mixer&) = delete;
  Mixer& operator=(const Mixer&) = delete;

  /// From Buffers::hidden, with its norm, to the sequence's memory and to Buffers::gathered [tokens, width].
  [[nodiscard]] const Operations& mix() const { return mix_; }
  /// From Buffers::gathered to the residual stream, row by row.
  [[nodiscard]] const Operations& project() const { return project_; }
  [[nodiscard]] std::int64_t width() const { return width_; }
  /// The first product of mix() if it reads Buffers::hidden, and the ResidualSum at the end of project() if there is one;
  /// else null.
  [[nodiscard]] virtual FusedLinear* first_product() { return nullptr; }
  [[nodiscard]] virtual ResidualSum* sum() { return nullptr; }
  /// Whether it has K and V in pages.
  [[nodiscard]] virtual bool has_pages() const = 0;
  /// The place of its K and V.
  [[nodiscard]] const KvPlace& kv_place() const { return kv_place_; }

 protected:
  Operations mix_;
  Operations project_;
  std::int64_t width_ = 0;
  KvPlace kv_place_{};
};

/// The part of a block that computes each row by itself, from a FeedForwardInput to the residual stream. Not moved.
class FeedForward {
 public:
  FeedForward() = default;
  virtual ~FeedForward() = default;
  FeedForward(const FeedForward&) = delete;
  FeedForward& operator=(const FeedForward&) = delete;

  [[nodiscard]] const Operations& operations() const { return operations_; }
  /// As for a mixer.
  [[nodiscard]] virtual FusedLinear* first_product() { return nullptr; }
  [[nodiscard]] virtual ResidualSum* sum() { return nullptr; }

 protected:
  Operations operations_;
};

/// One layer of a model: a mixer and a feed-forward part, or one of them, combined as LayerConfig::graph says.
class Block {
 public:
  /// `config` must outlive the block; `earlier` are the blocks before it.
  Block(Planner& planner, const ModelConfig& config, int index, std::span<const std::unique_ptr<Block>> earlier);
  /// Fuses the sum at the end of `before` into the block's first product. The block always runs right after `before`, on the
  /// same side.
  void join(Planner& planner, Block& before);

  /// The mixer's first half, and what is before it; nothing without a mixer.
  [[nodiscard]] const Operations& mix() const { return mix_; }
  /// Elements of a row of its output in Buffers::gathered, 0 without a mixer.
  [[nodiscard]] std::int64_t mixed_width() const { return mixer_ != nullptr ? mixer_->width() : 0; }
  [[nodiscard]] bool has_pages() const { return mixer_ != nullptr && mixer_->has_pages(); }
  /// Which side computes it.
  [[nodiscard]] Side side() const { return side_; }
  /// Whether later steps read its results: K and V of its own, or a state.
  [[nodiscard]] bool keeps() const { return keeps_; }
  /// Only for a block that has pages.
  [[nodiscard]] const KvPlace& kv_place() const { return mixer_->kv_place(); }
  /// The operations after mix(), row by row: they update Buffers::hidden and use Buffers::gathered.
  [[nodiscard]] const Operations& finish() const { return finish_; }

 private:
  void add_feed_forward(Planner& planner, const ModelConfig& config, int index);
  /// What is behind the two parts.
  void add_end(Planner& planner, const ModelConfig& config, int index);
  /// Joins the sums within the block to the products after them.
  void join_sums(Planner& planner);

  std::unique_ptr<Mixer> mixer_;  ///< null in a block without one
  std::optional<Norm> parallel_norm_;
  std::unique_ptr<FeedForward> feed_forward_;  ///< likewise
  std::optional<PerLayerInput> per_layer_;
  std::optional<BlockStreams> streams_;
  std::optional<LearnedResidual> learned_;
  std::optional<StreamOutput> merge_;  ///< of the last block
  std::optional<GivenRowsPart> deepstack_;
  std::optional<ControlPart> control_;
  std::optional<PlacedRows> feature_;  ///< the input of the next layer, for a draft
  bool keeps_ = false;
  Side side_;
  ResidualSum* last_sum_ = nullptr;  ///< the block's second, at its end
  Operations mix_;
  Operations finish_;
};

/// The scale at the end of block `index`, if the feed-forward part is its end; else "".
std::string_view feed_forward_scale(const ModelConfig& config, int index);
/// The norm of block `index` with this tensor, or none for "".
std::optional<NormName> block_norm(const ModelConfig& config, int index, std::string_view part);

}  // namespace rocmforge
