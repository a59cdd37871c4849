#pragma once

#include <span>

#include "kv/kv_cache.h"
#include "models/model.h"
#include "ops/batch_plan.h"
#include "schedule/scheduler.h"

namespace rocmforge {

/// Turns what the scheduler chose into a flat batch and runs the model on it.
class ModelRunner {
 public:
  ModelRunner(Model& model, KvCache& cache) : model_(&model), cache_(&cache) {}

  /// Logits [chunks that want them, vocab] in the order of the chunks; valid until the next call.
  const float* run(std::span<const ScheduledChunk> chunks);

 private:
  Model* model_;
  KvCache* cache_;
  BatchPlan batch_;
};

}  // namespace rocmforge
