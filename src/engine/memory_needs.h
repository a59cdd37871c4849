#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/devices.h"
#include "models/model.h"

namespace rocmforge {

/// The memory that a model needs on its device; on the fullest of them where ranks are GPUs.
struct MemoryNeeds {
  std::string where{};            ///< "" for the only memory; else of which
  std::int64_t weight_bytes = 0;  ///< CPU: of the file, or of the repacked weights if they are larger
  std::int64_t workspace_bytes = 0;
  std::int64_t kv_tokens = 0;           ///< positions of the cache
  std::int64_t kv_bytes_per_token = 0;  ///< in layers without a window
  std::int64_t window_bytes = 0;        ///< of the pages of layers with a window; independent of the number of positions
  std::vector<std::int32_t> blocks;     ///< of each group of pages
  std::int32_t state_slots = 0;         ///< of recurrent state
  std::int64_t slot_bytes = 0;
  std::optional<std::int64_t> available_bytes;  ///< before anything is loaded; empty when it is not known

  [[nodiscard]] std::int64_t total_bytes() const { return fixed_bytes() + kv_tokens * kv_bytes_per_token; }
  /// The memory that does not depend on the number of positions.
  [[nodiscard]] std::int64_t fixed_bytes() const {
    return weight_bytes + workspace_bytes + window_bytes + state_slots * slot_bytes;
  }
  [[nodiscard]] bool fits() const { return !available_bytes || total_bytes() <= *available_bytes; }
  /// Positions for which there is memory after fixed_bytes(); -1 when that is not known. A model without attention needs no
  /// memory for positions: either all positions fit or none.
  [[nodiscard]] std::int64_t fitting_tokens() const;
};

/// The memory of a model planned for `devices`, from a file of `file_bytes`, with a cache of `kv_tokens` positions, for
/// steps of up to `max_sequences` sequences and `max_batch_tokens` tokens.
MemoryNeeds memory_needs(std::uint64_t file_bytes, const Model& model, const Devices& devices, std::int64_t kv_tokens,
                         std::int32_t max_sequences, std::int32_t max_batch_tokens);

/// The memory that each device needs for its layers of a model that several have, of which memory_needs() is `of_all`.
std::vector<MemoryNeeds> stage_memory_needs(const Model& model, const Devices& devices, const MemoryNeeds& of_all);

/// Of these needs the one that leaves the least free; where that is not known, the largest.
const MemoryNeeds& tightest(const std::vector<MemoryNeeds>& needs);

/// The memory that the host needs for its part of a split model.
MemoryNeeds host_memory_needs(const Model& model, const MemoryNeeds& of_device);

/// K, V and states of a layer whose planes are in `groups`.
std::int64_t sequence_bytes(const ModelParts::Layer& layer, const KvGroups& groups, const MemoryNeeds& needs);

/// What the host can still hold, as available_memory_bytes().
std::optional<std::int64_t> available_host_bytes();

/// "needs 12.00 GiB of memory (weights 4.00, workspace 0.50, KV cache of 8192 tokens 7.50), 10.00 GiB are available: 6000
/// tokens would fit"
std::string describe_shortage(const MemoryNeeds& needs);

/// The longest context of which `contexts` fit, with these needs beside a cache, in what the model leaves free: of a GPU's
/// memory 15 parts of 16 and at most all but 512 MiB, of a host's memory half. Between the least that is chosen by default
/// and the model's own of `own` tokens. With `kv_tokens` > 0 the cache has that size.
std::int32_t fitting_context(const MemoryNeeds& needs, bool on_gpu, std::int32_t contexts, std::int64_t kv_tokens,
                             std::int32_t own);

/// The positions of a cache for `contexts` full contexts of `context` tokens, or 1,024 for each of `answers` if that is
/// more.
std::int64_t tokens_of_contexts(std::int64_t context, std::int32_t contexts, std::int32_t answers);

}  // namespace rocmforge
