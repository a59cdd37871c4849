#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/images.h"
#include "memory/sequence_memory.h"
#include "models/model.h"
#include "ops/batch_plan.h"
#include "schedule/pages/page_table.h"
#include "schedule/sequence.h"

namespace rocmforge {

/// The result of one chunk of a step.
struct ChunkResult {
  std::span<const std::int32_t> tokens{};  ///< drawn: accepted drafts and one more, none where every token is forbidden
  float probability = 0.0f;                ///< of the first one, where its row tells it, see SampleTokens
  std::span<const float> logits{};         ///< [ScheduledChunk::draws, vocab] from which they were drawn, before anything
                                           ///< is done to them; when the request asks for them
  std::span<const float> scored_logits{};  ///< [ScheduledChunk::scored().count(), vocab]
  std::span<const float> hidden{};         ///< [ScheduledChunk::pooled().count(), hidden] after the final norm
};

/// Appends the tokens of a chunk to a step, with what the step needs of its sequence beside them: blocks in all groups, and
/// positions where it has images, whose rows `images` notes.
void add_tokens(const ScheduledChunk& chunk, std::span<const std::int32_t> tokens, std::int32_t block_tokens,
                StepImages& images, BatchPlan& batch);

/// Turns the scheduler's chunks into a flat batch and runs the model on it, including the draw of the next tokens.
class ModelRunner {
 public:
  /// `vision` encodes the images of sequences that have some, `audio` their recordings; both may be null. `wants_states`:
  /// the hidden states of all rows are wanted in every step (MtpDrafts).
  ModelRunner(Model& model, SequenceMemory& memory, VisionModel* vision = nullptr, AudioModel* audio = nullptr,
              bool wants_states = false)
      : model_(&model),
        memory_(&memory),
        images_(model.config(), vision, audio, model.parts_on_host()),
        wants_states_(wants_states) {}

  /// How the next token of a chunk's sequence is drawn, for each row that it draws; first appends its adjustments and its
  /// mask.
  using NextDraw = std::function<SampleTokens::Row(const ScheduledChunk&, BatchPlan&)>;

  /// Copies blocks, in this order, before what the next step computes.
  void copy(std::span<const BlockCopy> copies);
  /// Starts a step for the chunks, if there are any.
  void start(std::span<const ScheduledChunk> chunks, const NextDraw& next_draw);
  /// Starts the step after the last started one, whose chunks must each draw one token and want no other result. Chunk i
  /// computes the token that chunk i of that step draws. If start() or start_ahead() throws, no step was started.
  void start_ahead(std::span<const ScheduledChunk> chunks, const NextDraw& next_draw);

  /// The last started step.
  [[nodiscard]] const BatchPlan& newest() const { return batches_[newest_]; }
  /// The floating-point operations of encoding the chunk's images.
  [[nodiscard]] double image_flops(const ScheduledChunk& chunk) const { return images_.flops(chunk); }

  /// Waits for the last started step, or with `before_last` for the one before it, which computed `chunks`. Returns one
  /// result for each, valid until the next call. If no chunk wants a result, the step may still run. Reading only tokens
  /// allocates nothing.
  std::span<const ChunkResult> results(std::span<const ScheduledChunk> chunks, bool before_last = false);

 private:
  void add(const ScheduledChunk& chunk, std::span<const std::int32_t> tokens, const NextDraw& next_draw);
  void forward();
  static void add_adapters(const ScheduledChunk& chunk, BatchPlan& batch);
  [[nodiscard]] BatchPlan& next() { return batches_[1 - newest_]; }

  Model* model_;
  SequenceMemory* memory_;
  StepImages images_;
  bool wants_states_;
  BatchPlan batches_[2];  ///< of the last two started steps
  int newest_ = 0;
  std::vector<ChunkResult> results_;
};

}  // namespace rocmforge
