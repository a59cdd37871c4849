#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kv/kv_cache.h"
#include "models/model.h"
#include "ops/batch_plan.h"
#include "schedule/scheduler.h"

namespace rocmforge {

/// Turns what the scheduler chose into a flat batch and runs the model on it, the draw of the next tokens included.
class ModelRunner {
 public:
  ModelRunner(Model& model, KvCache& cache) : model_(&model), cache_(&cache) {}

  /// How the next token of a chunk's sequence is drawn; appends what happens to its logits first.
  using NextDraw = std::function<SampleTokens::Row(const ScheduledChunk&, std::vector<SampleTokens::Adjustment>&)>;

  /// The tokens drawn for the chunks that want logits, in the order of the chunks; -1 where every token is forbidden. Valid
  /// until the next call. When no chunk wants logits the step may still run.
  std::span<const std::int32_t> run(std::span<const ScheduledChunk> chunks, const NextDraw& next_draw);

 private:
  Model* model_;
  KvCache* cache_;
  BatchPlan batch_;
};

}  // namespace rocmforge
