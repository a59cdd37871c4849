#include "engine/prompt_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/log.h"
#include "schedule/pages/prefix_cache.h"
#include "schedule/pages/window_group.h"

namespace rocmforge {
namespace {

double mebibytes(auto bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); }

}  // namespace

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

std::vector<std::int64_t> shares_of_kinds(const SequenceMemory& memory, std::int64_t max_bytes) {
  const std::int32_t block_tokens = memory.block_tokens();
  const std::int32_t blocks = std::max(PrefixCache::checkpoint_tokens / block_tokens, 1);
  std::vector<double> bytes;  // of a checkpoint
  for (std::size_t kind = 0; kind < memory.num_kinds(); ++kind) {
    const bool is_group = kind < memory.groups().size();
    const std::int32_t window = is_group ? memory.groups()[kind].window : 0;
    const std::int32_t copies = !is_group     ? 1
                                : window == 0 ? blocks
                                              : std::min(most_blocks_seen(window, block_tokens), blocks);
    bytes.push_back(copies * static_cast<double>(std::max<std::size_t>(memory.copy_bytes(kind), 1)));
  }
  const double all = std::accumulate(bytes.begin(), bytes.end(), 0.0);
  std::vector<std::int64_t> shares;
  for (const double each : bytes) {
    shares.push_back(static_cast<std::int64_t>(static_cast<double>(max_bytes) * (each / all)));
  }
  shares[0] = max_bytes - std::accumulate(shares.begin() + 1, shares.end(), std::int64_t{0});
  return shares;
}

std::string host_copies_refusal(const SequenceMemory& memory, std::int64_t max_bytes) {
  const std::vector<std::int64_t> shares = shares_of_kinds(memory, max_bytes);
  for (std::size_t kind = 0; kind < shares.size(); ++kind) {
    const std::size_t bytes = memory.copy_bytes(kind);
    if (shares[kind] < static_cast<std::int64_t>(bytes)) {
      const bool is_group = kind < memory.groups().size();
      return fmt::format("of {:.1f} MiB {:.1f} MiB are for {}, and each has {:.1f} MiB", mebibytes(max_bytes),
                         mebibytes(shares[kind]), is_group ? "blocks of pages" : "states", mebibytes(bytes));
    }
  }
  return {};
}

PromptCacheMemory::PromptCacheMemory(SequenceMemory& memory, std::int64_t max_bytes) {
  memory.keep_on_host(shares_of_kinds(memory, max_bytes));
  for (HostCopies& copies : memory.host_copies()) {
    sources_.emplace_back(copies);
  }
}

std::vector<HostBlockSource*> PromptCacheMemory::sources() {
  std::vector<HostBlockSource*> all;
  for (Source& source : sources_) {
    all.push_back(&source);
  }
  return all;
}

std::int32_t PromptCacheMemory::Source::grow() {
  if (!ended_) {
    try {
      copies_->grow();
    } catch (const Error& error) {
      ended_ = true;
      log_warning("the prompt cache in host memory stays at {} MiB: {}", copies_->bytes() >> 20, error.what());
    }
  }
  return copies_->num_blocks();
}

}  // namespace rocmforge
