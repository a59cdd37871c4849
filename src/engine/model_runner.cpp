#include "engine/model_runner.h"

namespace rocmforge {

const float* ModelRunner::run(std::span<const ScheduledChunk> chunks) {
  batch_.clear();
  const std::int32_t block_tokens = cache_->layout().block_tokens;
  for (const ScheduledChunk& chunk : chunks) {
    const std::span<const std::int32_t> tokens = chunk.sequence->tokens;
    // A long prompt holds blocks for all its tokens from the start; the table needs only those in use by now.
    const std::int32_t blocks_in_use = (chunk.first + chunk.count + block_tokens - 1) / block_tokens;
    batch_.add_sequence(tokens.subspan(static_cast<std::size_t>(chunk.first), static_cast<std::size_t>(chunk.count)),
                        chunk.first, chunk.sequence->pages.blocks().first(static_cast<std::size_t>(blocks_in_use)),
                        chunk.wants_logits);
  }
  batch_.finish();
  return model_->forward(batch_, *cache_);
}

}  // namespace rocmforge
