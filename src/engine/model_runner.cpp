#include "engine/model_runner.h"

namespace rocmforge {

std::span<const std::int32_t> ModelRunner::run(std::span<const ScheduledChunk> chunks, const NextDraw& next_draw) {
  batch_.clear();
  const std::int32_t block_tokens = cache_->layout().block_tokens;
  for (const ScheduledChunk& chunk : chunks) {
    const std::span<const std::int32_t> tokens = chunk.sequence->tokens;
    // A long prompt holds blocks for all its tokens from the start; the table needs only those in use by now.
    const std::int32_t blocks_in_use = (chunk.first + chunk.count + block_tokens - 1) / block_tokens;
    batch_.add_sequence(tokens.subspan(static_cast<std::size_t>(chunk.first), static_cast<std::size_t>(chunk.count)),
                        chunk.first, chunk.sequence->pages.blocks().first(static_cast<std::size_t>(blocks_in_use)),
                        chunk.wants_logits);
    if (chunk.wants_logits) {
      const auto first_adjustment = static_cast<std::int32_t>(batch_.adjustments.size());
      SampleTokens::Row row = next_draw(chunk, batch_.adjustments);
      row.first_adjustment = first_adjustment;
      row.num_adjustments = static_cast<std::int32_t>(batch_.adjustments.size()) - first_adjustment;
      batch_.sample_rows.push_back(row);
    }
  }
  batch_.finish();
  model_->forward(batch_, *cache_);
  return batch_.sample_rows.empty() ? std::span<const std::int32_t>() : model_->sampled();
}

}  // namespace rocmforge
