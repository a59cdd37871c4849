#pragma once

#include <memory>

#include "base/thread_pool.h"
#include "device/device.h"
#include "engine/engine.h"
#include "memory/sequence_memory.h"
#include "models/model.h"
#include "models/vision/vision_model.h"
#include "ops/kernel_registry.h"
#include "tokenizer/tokenizer.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// The parts of an engine; each may use those above it.
struct EngineParts {
  std::unique_ptr<const GgufFile> file;  ///< null for a model without a file
  std::unique_ptr<const KernelRegistry> registry;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Device> device;
  std::unique_ptr<Device> host;  ///< beside the device, where the model is split; else null
  std::unique_ptr<Model> model;
  std::unique_ptr<SequenceMemory> memory;
  std::unique_ptr<const GgufFile> vision_file{};  ///< null for a model that sees no images
  std::unique_ptr<VisionModel> vision{};          ///< likewise
  std::shared_ptr<const Tokenizer> tokenizer;     ///< may be null
  SamplingParams sampling{};                      ///< defaults of requests
  std::unique_ptr<Engine> draft_model{};          ///< with the same vocabulary; may be null
};

/// `options` gives the limits; its file and threads are not read.
std::unique_ptr<Engine> make_engine(EngineParts parts, const EngineOptions& options);

}  // namespace rocmforge
