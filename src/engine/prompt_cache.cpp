#include "engine/prompt_cache.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace rocmforge {

std::int64_t cache_ram_bytes(const EngineOptions& options, const PlannedModel& planned) {
  if (options.model.processes != nullptr) {  // the others have the rest of each block
    return 0;
  }
  if (options.cache_ram_bytes >= 0) {
    return options.cache_ram_bytes;
  }
  const MemoryNeeds* on_host = planned.host_memory        ? &*planned.host_memory
                               : planned.device->is_gpu() ? nullptr
                                                          : &planned.memory;
  const std::int64_t free_bytes = available_host_bytes().value_or(0) - (on_host != nullptr ? on_host->total_bytes() : 0);
  return std::max<std::int64_t>(free_bytes / 4, 0);
}

std::string_view host_copies_refusal(const SequenceMemory& memory) {
  return memory.states().num_slots > 0 ? "it has recurrent state"
         : memory.num_groups() > 1     ? "it has layers with a window"
                                       : "";
}

PromptCacheMemory::PromptCacheMemory(SequenceMemory& memory, std::int64_t max_bytes) : memory_(&memory) {
  memory.keep_on_host(max_bytes);
}

std::int32_t PromptCacheMemory::grow() {
  HostCopies& copies = *memory_->host_copies();
  if (!ended_) {
    try {
      copies.grow();
    } catch (const Error& error) {
      ended_ = true;
      log_warning("the prompt cache in host memory stays at {} MiB: {}", copies.bytes() >> 20, error.what());
    }
  }
  return copies.num_blocks();
}

}  // namespace rocmforge
