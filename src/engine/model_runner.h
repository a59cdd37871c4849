#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kv/kv_cache.h"
#include "kv/page_table.h"
#include "models/model.h"
#include "ops/batch_plan.h"
#include "schedule/sequence.h"

namespace rocmforge {

/// What a step gave for one chunk.
struct ChunkResult {
  std::int32_t token = -1;                 ///< drawn, when the chunk wants logits; -1 when every token is forbidden
  std::span<const float> logits{};         ///< [vocab] from which it was drawn, before anything is done to them; when
                                           ///< Request::logprobs asks for them
  std::span<const float> scored_logits{};  ///< [ScheduledChunk::scored().count(), vocab]
  std::span<const float> hidden{};         ///< [ScheduledChunk::pooled().count(), hidden] after the final norm
};

/// Turns what the scheduler chose into a flat batch and runs the model on it, the draw of the next tokens included.
class ModelRunner {
 public:
  ModelRunner(Model& model, KvCache& cache) : model_(&model), cache_(&cache) {}

  /// How the next token of a chunk's sequence is drawn; appends what happens to its logits first, and its mask.
  using NextDraw = std::function<SampleTokens::Row(const ScheduledChunk&, BatchPlan&)>;

  /// Makes the copies, then computes the chunks. One result for each chunk, valid until the next call. When nothing is
  /// wanted of any chunk the step may still run.
  std::span<const ChunkResult> run(std::span<const ScheduledChunk> chunks, std::span<const BlockCopy> copies,
                                   const NextDraw& next_draw);

 private:
  void add(const ScheduledChunk& chunk, const NextDraw& next_draw);
  void collect(std::span<const ScheduledChunk> chunks);

  Model* model_;
  KvCache* cache_;
  BatchPlan batch_;
  std::vector<ChunkResult> results_;
};

}  // namespace rocmforge
