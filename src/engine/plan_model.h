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
#include "engine/memory_needs.h"
#include "engine/place_model.h"
#include "models/audio/audio_model.h"
#include "models/config/assistant_file.h"
#include "models/config/eagle_file.h"
#include "models/model.h"
#include "models/vision/vision_model.h"
#include "ops/kernel_registry.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// Whether EngineOptions::device names several, which share the model.
inline bool names_several(std::string_view device) { return device.find(',') != std::string_view::npos; }

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
  std::vector<std::unique_ptr<Device>> further{};  ///< the devices behind the first, where several share the model
  std::unique_ptr<Model> model;
  std::unique_ptr<const GgufFile> mmproj_file{};     ///< null for a model that reads text alone
  bool sees = false;                                 ///< images, by that file
  bool hears = false;                                ///< recordings, likewise
  std::unique_ptr<VisionModel> vision{};             ///< null for one that sees no images
  std::unique_ptr<AudioModel> audio{};               ///< null for one that hears no recordings
  std::shared_ptr<const ControlVectors> control{};   ///< of the model; null without any
  std::shared_ptr<const EagleFile> eagle{};          ///< DraftOptions::model, where it is an EAGLE3 draft
  std::shared_ptr<const AssistantFile> assistant{};  ///< the same, where it is an assistant
  std::int32_t max_batch_tokens = 0;                 ///< EngineOptions::max_batch_tokens, or what an image needs
  std::int32_t context_length = 0;                   ///< EngineOptions::context_length, or what was chosen
  int threads = 1;
  MemoryNeeds memory;                       ///< of the device; of the fullest one where several share the model
  std::vector<MemoryNeeds> stage_memory{};  ///< of each device, where each has some of the layers
  std::string split{};                      ///< one line of how several devices share the model, and why; "" for one
  std::unique_ptr<Device> host{};           ///< beside the device, where the model is split; else null
  std::optional<MemoryNeeds> host_memory{};
  std::optional<PlannedPlacement> placement{};  ///< likewise
  bool mtp = false;                             ///< MTP blocks are loaded, and draft
  LaunchMerging merging;
  double product_groups = 1.0;  ///< of product_group_choices(): what the saved check found fastest

  /// Those that there are.
  [[nodiscard]] std::vector<const MediaEncoder*> encoders() const;
  /// All devices, or the only one, with the host beside them.
  [[nodiscard]] Devices devices() const { return devices_of(*device, host.get(), further); }
  /// That of DraftOptions::model, where it is a part of the model and no model of its own; else null.
  [[nodiscard]] const GgufFile* draft_file() const {
    return eagle != nullptr ? &eagle->file : assistant != nullptr ? &assistant->file : nullptr;
  }
  /// What the model needs on its device, or on all of those that have some of its layers.
  [[nodiscard]] std::int64_t device_bytes() const;
  /// The needs of the fullest memory that does not suffice; null where all do.
  [[nodiscard]] const MemoryNeeds* lacking() const {
    return !memory.fits() ? &memory : host_memory && !host_memory->fits() ? &*host_memory : nullptr;
  }
};

/// Bytes of the encoders' weights, as MemoryNeeds::weight_bytes counts them, and of their workspaces; 0 without one.
std::int64_t encoder_weight_bytes(const PlannedModel& planned);
std::int64_t encoder_workspace_bytes(const PlannedModel& planned);

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
