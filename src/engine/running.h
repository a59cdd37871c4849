#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/answer.h"
#include "engine/draft_depth.h"
#include "engine/engine.h"
#include "schedule/sequence.h"

namespace rocmforge {

/// What Drafts knows of one sequence.
struct Drafting {
  DraftDepth table_depth{};
  DraftDepth model_depth{};
  bool by_model = false;               ///< the drafts of this step
  bool are_forced = false;             ///< some of them are, by a constraint
  std::int32_t learned = 0;            ///< tokens that the table of runs has
  std::int32_t computed_by_model = 0;  ///< tokens that the draft model has computed
  std::int32_t drafted_tokens = 0;
  std::int32_t accepted_tokens = 0;
};

/// A request that has not finished, with all that the engine knows of it: its sequence, and its answer.
struct Running final : Sequence {
  Running(RequestId id, Request accepted, SequenceCache& sequence_cache, std::shared_ptr<const Tokenizer> tokenizer)
      : Sequence(id, std::move(accepted), sequence_cache), answer(request, std::move(tokenizer)) {
    set_adapters();
  }

  /// Sets `adapters`, whose places a shift of the context moves.
  void set_adapters() {
    adapters.clear();
    for (const AdapterScale& adapter : request.adapters.value_or(std::vector<AdapterScale>())) {
      adapters.push_back({adapter.id, adapter.scale, adapter.from});
    }
    std::ranges::stable_sort(adapters, {}, &AdapterUse::from);
  }

  /// Every sequence that an engine's scheduler has is one.
  static Running& of(Sequence& sequence) { return static_cast<Running&>(sequence); }
  static const Running& of(const Sequence& sequence) { return static_cast<const Running&>(sequence); }

  [[nodiscard]] RequestStats stats() const {
    return {.prompt_tokens = prompt_tokens,
            .cached_tokens = prefix_hits,
            .host_tokens = host_hits,
            .disk_tokens = std::min(host_hits, disk_tokens),
            .generated_tokens = generated(),
            .queue_seconds = answer.queue_seconds(),
            .prompt_seconds = answer.prompt_seconds(),
            .decode_seconds = answer.decode_seconds(),
            .drafted_tokens = drafting.drafted_tokens,
            .accepted_tokens = drafting.accepted_tokens};
  }

  Answer answer;
  Drafting drafting{};
  std::vector<AdapterUse> adapters{};  ///< of the request, for steps
  std::int32_t disk_tokens = 0;        ///< read from files when it came
};

}  // namespace rocmforge
