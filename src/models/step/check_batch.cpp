#include "models/step/check_batch.h"

#include <algorithm>

#include "ops/embedding.h"

namespace rocmforge {
namespace {

void check_rows(const BatchPlan& batch, const ModelOptions& options) {
  check(batch.num_tokens() >= 1 && batch.num_tokens() <= options.max_batch_tokens,
        "a step has 1 to max_batch_tokens tokens");
  check(batch.num_sequences() <= options.max_sequences, "a step has at most max_sequences sequences");
  check(batch.logit_rows.size() <= static_cast<std::size_t>(options.max_logit_rows),
        "at most max_logit_rows rows of logits");
}

void check_encoded_texts(const BatchPlan& batch) {
  check(batch.logit_rows.empty(), "an encoder has no logits");
  for (std::int32_t s = 0; s < batch.num_sequences(); ++s) {
    check(batch.q_len(s) == batch.kv_lengths[static_cast<std::size_t>(s)], "an encoder computes a text in one step");
  }
}

void check_memory(const SequenceMemory& memory, const StepBounds& bounds) {
  check(same_planes(memory.groups(), bounds.kv_groups),
        "the cache must have the layers of the model and the layouts of its attention kernels");
  check(memory.states().slot_stride == static_cast<std::int64_t>(bounds.state_bytes) &&
            memory.states(Side::host).slot_stride == static_cast<std::int64_t>(bounds.host_state_bytes),
        "the slots must be as large as the model's state");
}

void check_loaded_for(const BatchPlan& batch, const StepBounds& bounds) {
  const ModelOptions& options = bounds.options;
  check(batch.overwritten_rows.empty() || (options.given_rows && batch.given.stride >= bounds.config.given_width()),
        "the model was not loaded for given rows, or they are too narrow");
  check(batch.overwritten_rows.empty() || !options.placement.split() || batch.given.on_host != nullptr,
        "the host of a split model needs given rows too");
  check(batch.most_rows <= options.most_rows, "the model was not loaded for so many rows of a sequence");
  check(options.spans || batch.visible_end.empty(), "the model was not loaded for tokens that see each other");
  check(batch.position_axes <= bounds.config.position_axes, "a token has more positions than the model's rotation");
}

void check_positions(const BatchPlan& batch, const StepBounds& bounds) {
  const auto is_learned = [&bounds](std::int32_t position) { return position < bounds.config.context_length; };
  check(!bounds.config.learned_positions || std::ranges::all_of(batch.positions, is_learned),
        "a position is outside the learned ones");
  const auto fits = [&bounds](std::int32_t length) { return length <= bounds.options.context_length; };
  check(std::ranges::all_of(batch.kv_lengths, fits), "a sequence is longer than the context that the model was loaded for");
}

void check_tokens(const BatchPlan& batch, const StepBounds& bounds) {
  const auto is_known = [&bounds](std::int32_t token) {
    return token < 0 ? EmbeddingRows::drawn_token(token) < bounds.drawn_rows : token < bounds.config.vocab;
  };
  check(std::ranges::all_of(batch.tokens, is_known), "a token is outside the vocabulary or of what the last step drew");
}

}  // namespace

void check_batch(const BatchPlan& batch, const SequenceMemory& memory, const StepBounds& bounds) {
  check_rows(batch, bounds.options);
  if (bounds.config.encoder.is_encoder) {
    check_encoded_texts(batch);
  }
  check_memory(memory, bounds);
  batch.validate(memory.num_blocks(), memory.block_tokens(), memory.states().num_slots);
  check_loaded_for(batch, bounds);
  check_positions(batch, bounds);
  check_tokens(batch, bounds);
}

}  // namespace rocmforge
