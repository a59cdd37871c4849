#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "engine/check_records.h"
#include "engine/engine.h"
#include "engine/engine_parts.h"
#include "engine/place_model.h"
#include "models/model.h"
#include "models/vision/vision_model.h"
#include "ops/kernel_registry.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// The memory that a model needs on its device; on each of them where ranks are GPUs.
struct MemoryNeeds {
  std::string_view where{};       ///< "" for the only memory; else of which
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

/// The memory that the host needs for its part of a split model.
MemoryNeeds host_memory_needs(const Model& model, const MemoryNeeds& of_device);

/// What the host can still hold, as available_memory_bytes().
std::optional<std::int64_t> available_host_bytes();

/// "needs 12.00 GiB of memory (weights 4.00, workspace 0.50, KV cache of 8192 tokens 7.50), 10.00 GiB are available: 6000
/// tokens would fit"
std::string describe_shortage(const MemoryNeeds& needs);

/// Whether launches are merged (MergeLaunches).
struct LaunchMerging {
  bool on = false;
  std::string why;  ///< "--merge-launches off", "the check of 2026-03-01: hung with layers of Llama 2 7B"
};
/// `record`: the saved check of the device, if there is one.
LaunchMerging decide_merging(const EngineOptions& options, const KernelRegistry& registry, const DeviceInfo& device,
                             const std::optional<CheckRecord>& record);

/// A model with its device opened, kernels chosen and memory counted; its weights are not loaded.
struct PlannedModel {
  std::unique_ptr<const GgufFile> file;
  std::unique_ptr<const KernelRegistry> registry;
  std::unique_ptr<Device> device;
  std::vector<std::unique_ptr<Device>> further{};  ///< of the ranks behind the first, where they are GPUs
  std::unique_ptr<Model> model;
  std::unique_ptr<const GgufFile> vision_file{};  ///< null for a model that sees no images
  std::unique_ptr<VisionModel> vision{};          ///< likewise
  std::int32_t max_batch_tokens = 0;              ///< EngineOptions::max_batch_tokens, or what an image needs
  std::int32_t context_length = 0;                ///< EngineOptions::context_length, or what was chosen
  int threads = 1;
  MemoryNeeds memory;              ///< of the device
  std::unique_ptr<Device> host{};  ///< beside the device, where the model is split; else null
  std::optional<MemoryNeeds> host_memory{};
  std::optional<PlannedPlacement> placement{};  ///< likewise
  bool mtp = false;                             ///< MTP blocks are loaded, and draft
  LaunchMerging merging;
  double product_groups = 1.0;  ///< of product_group_choices(): what the saved check found fastest

  /// All GPUs of the ranks, or the only device and the host beside it.
  [[nodiscard]] Devices devices() const { return devices_of(*device, host.get(), further); }
  /// The needs of the first memory that does not suffice; null where all do.
  [[nodiscard]] const MemoryNeeds* lacking() const {
    return !memory.fits() ? &memory : host_memory && !host_memory->fits() ? &*host_memory : nullptr;
  }
};

/// The longest context of which `contexts` fit, with these needs beside a cache, in what the model leaves free: of a GPU's
/// memory 15 parts of 16 and at most all but 512 MiB, of a host's memory half. Between the least that is chosen by default
/// and the model's own of `own` tokens. With `kv_tokens` > 0 the cache has that size.
std::int32_t fitting_context(const MemoryNeeds& needs, bool on_gpu, std::int32_t contexts, std::int64_t kv_tokens,
                             std::int32_t own);

/// The positions of a cache for `contexts` full contexts of `context` tokens, or 1,024 for each of `answers` if that is
/// more.
std::int64_t tokens_of_contexts(std::int64_t context, std::int32_t contexts, std::int32_t answers);

/// Bytes of the image encoder's weights, as MemoryNeeds::weight_bytes counts them; 0 without one.
std::int64_t encoder_weight_bytes(const PlannedModel& planned);

/// Returns what `body` returns. Adds the file's name to an Error that does not begin with it: errors in the file already
/// name it, errors of the machine do not.
template <class Body>
auto naming_file(const std::string& path, Body&& body) {
  try {
    return body();
  } catch (Error& error) {
    if (!std::string_view(error.what()).starts_with(path)) {
      error.in(path);
    }
    throw;
  }
}

/// Makes the registry refuse the kernels that `options` excludes (without, safe).
void refuse_kernels(const EngineOptions& options, KernelRegistry& registry);

/// Throws Error as load_model does, except for too little memory. Without `device` it opens the one that `options` names.
PlannedModel plan_model(const std::string& path, const EngineOptions& options, std::unique_ptr<Device> device = nullptr);

}  // namespace rocmforge
