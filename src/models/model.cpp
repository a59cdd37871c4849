#include "models/model.h"

#include <utility>

#include "models/adapters/lora_file.h"
#include "models/process_rank.h"
#include "models/tensor_parallel.h"
#include "models/transformer.h"

namespace rocmforge {

const ModelParts& Model::parts() const {
  static const ModelParts none;
  return none;
}

void Model::load_adapter(std::int32_t, std::shared_ptr<const LoraFile> file) {
  throw Error(file->file().path().string() + ": the model takes no adapters");
}

void Model::forward_mtp(std::int32_t, const BatchPlan&, SequenceMemory&) { fail_check("the model has no MTP blocks"); }

std::unique_ptr<Model> Model::plan(const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device,
                                   int num_threads, const ModelOptions& options) {
  ModelConfig config = ModelConfig::from_gguf(file, options.context_length);
  check(options.ranks == 1 || options.processes == nullptr, "ranks are threads or processes");
  if (options.processes != nullptr) {
    return std::make_unique<ProcessRank>(std::move(config), file, registry, device, num_threads, options);
  }
  if (options.ranks > 1) {
    return std::make_unique<TensorParallel>(config, file, registry, device, num_threads, options);
  }
  return std::make_unique<Transformer>(std::move(config), file, registry, device, num_threads, options);
}

std::unique_ptr<Model> Model::load(const GgufFile& file, const KernelRegistry& registry, const Devices& devices,
                                   ThreadPool& pool, const ModelOptions& options) {
  auto model = plan(file, registry, devices.at(Side::device).info(), pool.num_threads(), options);
  model->load(devices, pool);
  return model;
}

}  // namespace rocmforge
