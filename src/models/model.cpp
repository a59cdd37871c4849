#include "models/model.h"

#include <utility>

#include "models/tensor_parallel.h"
#include "models/transformer.h"

namespace rocmforge {

const ModelParts& Model::parts() const {
  static const ModelParts none;
  return none;
}

void Model::forward_mtp(std::int32_t, const BatchPlan&, SequenceMemory&) { fail_check("the model has no MTP blocks"); }

std::unique_ptr<Model> Model::plan(const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device,
                                   int num_threads, const ModelOptions& options) {
  ModelConfig config = ModelConfig::from_gguf(file, options.context_length);
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
