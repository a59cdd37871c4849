#pragma once

#include <cstdint>
#include <string_view>

#include "engine/engine.h"
#include "engine/plan_model.h"
#include "memory/sequence_memory.h"
#include "schedule/pages/host_blocks.h"

namespace rocmforge {

/// EngineOptions::cache_ram_bytes in bytes: where it is to be chosen, a quarter of the host memory that the planned model
/// leaves free.
std::int64_t cache_ram_bytes(const EngineOptions& options, const PlannedModel& planned);

/// Why no blocks of such a model can be kept in host memory, "" if they can.
std::string_view host_copies_refusal(const SequenceMemory& memory);

/// The blocks of host memory of an engine's prefix cache. Where the host has no more memory the cache stays as large as it
/// is, which one line of the log says.
class PromptCacheMemory final : public HostBlockSource {
 public:
  /// Of up to `max_bytes`; `memory` must outlive it.
  PromptCacheMemory(SequenceMemory& memory, std::int64_t max_bytes);
  std::int32_t grow() override;

 private:
  SequenceMemory* memory_;
  bool ended_ = false;
};

}  // namespace rocmforge
