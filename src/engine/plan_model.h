#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "engine/engine.h"
#include "models/model.h"
#include "ops/kernel_registry.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// What running a model takes of its device's memory.
struct MemoryNeeds {
  std::int64_t weight_bytes =
      0;  ///< on the CPU those of the file, or of its weights as kernels want them where these take more
  std::int64_t workspace_bytes = 0;
  std::int64_t kv_tokens = 0;           ///< positions of the cache
  std::int64_t kv_bytes_per_token = 0;  ///< in layers without a window
  std::int64_t window_bytes = 0;        ///< of the pages of layers with a window, which don't grow with the positions
  std::vector<std::int32_t> blocks;     ///< of each group of pages
  std::int32_t state_slots = 0;         ///< of recurrent state
  std::int64_t slot_bytes = 0;
  std::optional<std::int64_t> available_bytes;  ///< before anything is loaded; empty when nobody says

  [[nodiscard]] std::int64_t total_bytes() const { return fixed_bytes() + kv_tokens * kv_bytes_per_token; }
  /// What does not depend on the number of positions.
  [[nodiscard]] std::int64_t fixed_bytes() const {
    return weight_bytes + workspace_bytes + window_bytes + state_slots * slot_bytes;
  }
  [[nodiscard]] bool fits() const { return !available_bytes || total_bytes() <= *available_bytes; }
  /// Positions for which there is room beside the rest; -1 when nobody says. Those of a model without attention take none:
  /// then it is all or nothing.
  [[nodiscard]] std::int64_t fitting_tokens() const;
};

/// Of a model that was planned for `device`, from a file of so many bytes, with a cache of so many positions, for steps of
/// so many sequences and tokens.
MemoryNeeds memory_needs(std::uint64_t file_bytes, const Model& model, Device& device, std::int64_t kv_tokens,
                         std::int32_t max_sequences, std::int32_t max_batch_tokens);

/// "needs 12.00 GiB of memory (weights 4.00, workspace 0.50, KV cache of 8192 tokens 7.50), 10.00 GiB are available: 6000
/// tokens would fit"
std::string describe_shortage(const MemoryNeeds& needs);

/// A model with its device opened, kernels chosen and memory counted; nothing is loaded.
struct PlannedModel {
  std::unique_ptr<const GgufFile> file;
  std::unique_ptr<const KernelRegistry> registry;
  std::unique_ptr<Device> device;
  std::unique_ptr<Model> model;
  int threads = 1;
  MemoryNeeds memory;
};

/// What `body` returns; an Error that does not begin with the file's name gets it: what is wrong inside the file names it
/// already, what is wrong with the machine does not.
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

/// Throws Error as load_model does, but not for want of memory. Without `device` it opens the one that `options` names.
PlannedModel plan_model(const std::string& path, const EngineOptions& options, std::unique_ptr<Device> device = nullptr);

}  // namespace rocmforge
