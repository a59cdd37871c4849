#include "models/adapters/adapters.h"

#include <tuple>
#include <utility>

namespace rocmforge {

void Adapters::load(std::int32_t id, std::shared_ptr<const LoraFile> file, const WeightTable& weights,
                    const AdapterDevice& where) {
  check(!has(id), "an adapter's id is new");
  adapters_.emplace(std::piecewise_construct, std::tuple(id), std::forward_as_tuple(std::move(file), weights, where));
}

void Adapters::add(const Step& step, const MatmulWeight& weight, const ProductRows& rows) const {
  for (const AdapterRun& run : step.adapter_runs) {
    for (const AdapterUse& use : run.uses) {
      adapters_.at(use.adapter).add(step, run, use.scale, weight, rows);
    }
  }
}

void Adapters::add_to_embedding(const Step& step, float factor) const {
  for (const AdapterRun& run : step.adapter_runs) {
    for (const AdapterUse& use : run.uses) {
      adapters_.at(use.adapter).add_to_embedding(step, run, factor * use.scale);
    }
  }
}

}  // namespace rocmforge
