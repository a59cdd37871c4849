#pragma once

#include <memory>
#include <utility>

#include "engine/answer.h"
#include "engine/engine.h"
#include "schedule/sequence.h"

namespace rocmforge {

/// A request that has not finished, with all that the engine knows of it: its sequence, and its answer.
struct Running final : Sequence {
  Running(RequestId id, Request accepted, SequenceCache& sequence_cache, std::shared_ptr<const Tokenizer> tokenizer)
      : Sequence(id, std::move(accepted), sequence_cache), answer(request, std::move(tokenizer)) {}

  /// Every sequence that an engine's scheduler has is one.
  static Running& of(Sequence& sequence) { return static_cast<Running&>(sequence); }
  static const Running& of(const Sequence& sequence) { return static_cast<const Running&>(sequence); }

  [[nodiscard]] RequestStats stats() const {
    return {.prompt_tokens = prompt_tokens,
            .cached_tokens = prefix_hits,
            .generated_tokens = generated(),
            .queue_seconds = answer.queue_seconds(),
            .prompt_seconds = answer.prompt_seconds(),
            .decode_seconds = answer.decode_seconds()};
  }

  Answer answer;
};

}  // namespace rocmforge
