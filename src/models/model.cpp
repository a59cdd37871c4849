#include "models/model.h"

#include <utility>

#include "models/adapters/lora_file.h"
#include "models/layer_pipeline.h"
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
  if (!options.stage_ends.empty()) {
    check(options.ranks == 1, "ranks share each layer or the layers");
    return std::make_unique<LayerPipeline>(config, file, registry, device, num_threads, options);
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

SequenceMemory::Size memory_size(const Model& model, std::vector<std::int32_t> blocks, std::int32_t slots) {
  const Model& first = model.of_rank(0);
  SequenceMemory::Size size{.blocks = std::move(blocks),
                            .block_tokens = block_tokens_of(model.kv_groups()),
                            .slot_bytes = first.state_bytes(),
                            .host_slot_bytes = first.host_state_bytes(),
                            .slots = slots,
                            .ranks = model.ranks()};
  if (!model.stage_ends().empty()) {
    for (std::size_t rank = 1; rank < static_cast<std::size_t>(model.ranks()); ++rank) {
      const Model& other = model.of_rank(rank);
      size.others.push_back({other.kv_groups(), other.state_bytes(), other.host_state_bytes()});
    }
  }
  return size;
}

}  // namespace rocmforge
