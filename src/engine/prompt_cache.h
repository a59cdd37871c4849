#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/plan_model.h"
#include "memory/sequence_memory.h"
#include "schedule/pages/host_blocks.h"

namespace rocmforge {

/// EngineOptions::cache_ram_bytes in bytes: where it is to be chosen, a quarter of the host memory that the planned model
/// leaves free.
std::int64_t cache_ram_bytes(const EngineOptions& options, const PlannedModel& planned);

/// The bytes of `max_bytes` for copies of each kind (SequenceMemory::num_kinds): in the proportions in which a long prompt
/// has them, with a state and a window in PrefixCache::checkpoint_tokens positions.
std::vector<std::int64_t> shares_of_kinds(const SequenceMemory& memory, std::int64_t max_bytes);

/// Why that is too little for anything to be found again; "" if it is not.
std::string host_copies_refusal(const SequenceMemory& memory, std::int64_t max_bytes);

/// The host memory of an engine's prefix cache, of each kind of copies. Where the host has no more memory the cache stays as
/// large as it is, which one line of the log says.
class PromptCacheMemory {
 public:
  /// Of up to `max_bytes`; `memory` must outlive it.
  PromptCacheMemory(SequenceMemory& memory, std::int64_t max_bytes);
  /// Of each kind.
  [[nodiscard]] std::vector<HostBlockSource*> sources();

 private:
  class Source final : public HostBlockSource {
   public:
    explicit Source(HostCopies& copies) : copies_(&copies) {}
    std::int32_t grow() override;

   private:
    HostCopies* copies_;
    bool ended_ = false;
  };
  std::vector<Source> sources_;
};

}  // namespace rocmforge
