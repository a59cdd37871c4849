#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "device/devices.h"
#include "engine/engine.h"
#include "memory/sequence_memory.h"
#include "models/audio/audio_model.h"
#include "models/config/assistant_file.h"
#include "models/config/eagle_file.h"
#include "models/model.h"
#include "models/vision/vision_model.h"
#include "ops/kernel_registry.h"
#include "tokenizer/tokenizer.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// The only device, or with `further` several that share a model, and the host beside them, which may be null.
Devices devices_of(Device& first, Device* host, std::span<const std::unique_ptr<Device>> further);

/// The parts of an engine; each may use those above it.
struct EngineParts {
  std::unique_ptr<const GgufFile> file;  ///< null for a model without a file
  std::unique_ptr<const KernelRegistry> registry;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Device> device;
  std::vector<std::unique_ptr<Device>> further{};  ///< the devices behind the first that share the model
  std::unique_ptr<Device> host;                    ///< beside the device, where the model is split; else null
  std::unique_ptr<Model> model;
  std::unique_ptr<SequenceMemory> memory;
  std::unique_ptr<const GgufFile> mmproj_file{};     ///< null for a model that reads text alone
  std::unique_ptr<VisionModel> vision{};             ///< null for one that sees no images
  std::unique_ptr<AudioModel> audio{};               ///< null for one that hears no recordings
  std::shared_ptr<const Tokenizer> tokenizer;        ///< may be null
  SamplingParams sampling{};                         ///< defaults of requests
  std::shared_ptr<const ControlVectors> control{};   ///< of the model; null without any
  std::shared_ptr<const EagleFile> eagle{};          ///< the draft that the model has loaded; may be null
  std::shared_ptr<const AssistantFile> assistant{};  ///< likewise
  std::unique_ptr<Engine> draft_model{};             ///< with the same vocabulary; may be null
};

/// `options` gives the limits; its file and threads are not read.
std::unique_ptr<Engine> make_engine(EngineParts parts, const EngineOptions& options);

}  // namespace rocmforge
