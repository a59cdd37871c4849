#include "models/adapters/adapters.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace rocmforge {

void Adapters::load(std::int32_t id, std::shared_ptr<const LoraFile> file, const WeightTable& weights,
                    const AdapterDevice& where) {
  check(!has(id), "an adapter's id is new");
  const auto added =
      adapters_.emplace(std::piecewise_construct, std::tuple(id), std::forward_as_tuple(std::move(file), weights, where));
  if (const LoraAdapter& adapter = added.first->second; adapter.experts().any_inputs()) {
    with_context(adapter.path(), [&] { separate_.prepare(weights, where); });
  }
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

void Adapters::add_to_experts(const Step& step, const ExpertMatrix& matrix, const ExpertRows& rows) const {
  for (const AdapterRun& run : step.adapter_runs) {
    for (const AdapterUse& use : run.uses) {
      adapters_.at(use.adapter).experts().add(step, run, use.scale, matrix, rows);
    }
  }
}

bool Adapters::change(const Step& step, std::span<const ExpertMatrix* const> matrices) const {
  return std::ranges::any_of(step.adapter_runs, [&](const AdapterRun& run) {
    return std::ranges::any_of(run.uses, [&](const AdapterUse& use) {
      const ExpertAdapter& own = adapters_.at(use.adapter).experts();
      return std::ranges::any_of(matrices, [&own](const ExpertMatrix* matrix) { return own.has(*matrix); });
    });
  });
}

void Adapters::activate(const Step& step, std::span<const ExpertMatrix* const> matrices, const float* x, float* out) const {
  const float* const inputs = separate_.inputs(step, *matrices[0], x);
  for (std::size_t place = 0; place < matrices.size(); ++place) {
    const ExpertMatrix& matrix = *matrices[place];
    add_to_experts(step, matrix, {.x = x, .out = separate_.multiply(step, matrix, place, inputs)});
  }
  separate_.activate(step, matrices, out);
}

}  // namespace rocmforge
