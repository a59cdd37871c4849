#include "models/runner.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/backend.h"
#include "kernels/register_all.h"

namespace rocmforge::testing {
namespace {

constexpr CpuIsa all_isas[] = {CpuIsa::generic, CpuIsa::neon, CpuIsa::avx2, CpuIsa::avx512};

std::string set_name(CpuIsa isa) { return "cpu-" + std::string(name(isa)); }

DeviceInfo device_of(const std::string& kernel_set) {
  for (const CpuIsa isa : all_isas) {
    if (kernel_set == set_name(isa)) {
      return cpu_device_info(isa);
    }
  }
  return cpu_device_info();
}

/// The cache in blocks of `block_tokens`, its elements far from any real key or value.
std::unique_ptr<KvCache> poisoned_cache(KvLayout layout, std::int32_t layers) {
  layout.block_tokens = Runner::block_tokens;
  auto cache = std::make_unique<KvCache>(layout, layers, Runner::num_blocks);
  if (layout.dtype == DType::f32) {
    for (std::int32_t layer = 0; layer < layers; ++layer) {
      std::fill_n(static_cast<float*>(cache->layer(layer).data), Runner::num_blocks * layout.block_elems(), 1000.0f);
    }
  }
  return cache;
}

}  // namespace

const std::vector<std::string>& kernel_sets() {
  static const std::vector<std::string> sets = [] {
    std::vector<std::string> names{"reference"};
    for (const CpuIsa isa : all_isas) {
      if (cpu_device_info(isa).cpu_isa == isa) {
        names.push_back(set_name(isa));
      }
    }
    return names;
  }();
  return sets;
}

ModelOptions f32_options() {
  ModelOptions options;
  options.kv_dtype = DType::f32;
  options.max_batch_tokens = 256;
  options.max_logit_rows = 256;
  return options;
}

Runner::Runner(const GgufFile& file, const std::string& kernel_set, int num_threads)
    : Runner(file, kernel_set, f32_options(), num_threads) {}

Runner::Runner(const GgufFile& file, const std::string& kernel_set, const ModelOptions& options, int num_threads)
    : device_(device_of(kernel_set)), pool_(num_threads) {
  if (kernel_set == "reference") {
    register_reference_kernels(registry_);
  } else {
    register_all_kernels(registry_);
  }
  model_ = Model::load(file, registry_, device_, pool_, options);
  cache_ = poisoned_cache(model_->kv_layout(), model_->config().layers);
}

std::vector<float> Runner::step(const std::vector<Piece>& pieces) {
  BatchPlan plan;
  plan.clear();
  for (const Piece& piece : pieces) {
    plan.add_sequence(piece.tokens, piece.first_position, piece.blocks, true, true);
  }
  plan.finish();
  const float* logits = model_->forward(plan, *cache_);
  return {logits, logits + plan.logit_rows.size() * static_cast<std::size_t>(model_->config().vocab)};
}

std::vector<float> Runner::whole(const std::vector<std::int32_t>& tokens) {
  std::vector<std::int32_t> blocks;
  for (std::int32_t block = 0; block * block_tokens < static_cast<std::int32_t>(tokens.size()); ++block) {
    blocks.push_back(block);
  }
  return step({{tokens, 0, blocks}});
}

double relative_error(const std::vector<float>& out, const std::vector<float>& reference) {
  if (out.size() != reference.size()) {
    return INFINITY;
  }
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double d = static_cast<double>(out[i]) - static_cast<double>(reference[i]);
    difference += d * d;
    norm += static_cast<double>(reference[i]) * static_cast<double>(reference[i]);
  }
  return std::sqrt(difference / norm);
}

}  // namespace rocmforge::testing
